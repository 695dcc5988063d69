/* Finds the functions that this library stands in for, and others of ggml and llama.cpp. */
#ifndef BUBBLESCOPE_GGML_SYMBOLS_H
#define BUBBLESCOPE_GGML_SYMBOLS_H

/* The function of that name in the libraries that are loaded, which the program would call without us; NULL
 * if there is none. */
void *symbol_find(const char *name);

#endif
