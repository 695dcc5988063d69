/* What a run of llama.cpp is: its model, its settings, and whether it pipelines. */
#ifndef BUBBLESCOPE_GGML_FACTS_H
#define BUBBLESCOPE_GGML_FACTS_H

#include "ggml/api.h"

#include <stdbool.h>

/* Reads the command line, before the program does, which may change it. */
void read_flags(void);

/* Tells what a context says about itself and its model; once. */
void tell_context(ggml_object context);

/* Tells how a scheduler has split a graph of several tokens, and whether it pipelines; once. */
void tell_scheduler(ggml_object scheduler);

/* The same piece by piece, and of a context what the command line says, where neither can be asked. */
void tell_run(const char *seen_by);
void tell_sizes(void);
void tell_splits(int splits);
void tell_copies(int copies);
void tell_pipelining(bool pipelines);

#endif
