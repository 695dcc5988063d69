/* What a run of llama.cpp is: its model, its settings, and whether it pipelines. */
#ifndef BUBBLESCOPE_GGML_FACTS_H
#define BUBBLESCOPE_GGML_FACTS_H

#include "ggml/api.h"

/* Reads the command line, before the program does, which may change it. */
void read_flags(void);

/* Tells what a context says about itself and its model; once. */
void tell_context(ggml_object context);

/* Tells how a scheduler has split a graph of several tokens, and whether it pipelines; once. */
void tell_scheduler(ggml_object scheduler, ggml_object graph);

#endif
