#ifndef BUBBLESCOPE_GGML_LAST_WORDS_H
#define BUBBLESCOPE_GGML_LAST_WORDS_H

/* Has errors kept from now on, if this process is recorded. */
void last_words_keep(void);

#endif
