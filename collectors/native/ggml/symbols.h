/* Finds the functions that this library stands in for, and others of ggml and llama.cpp. */
#ifndef BUBBLESCOPE_GGML_SYMBOLS_H
#define BUBBLESCOPE_GGML_SYMBOLS_H

/* The function of that name which the program would call without us; NULL if there is none. */
void *symbol_find(const char *name);

/* The same in the symbol table of the program's file, which also lists what is linked in statically;
 * NULL if it is stripped. */
void *symbol_in_program(const char *name);

#endif
