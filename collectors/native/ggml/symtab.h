/* The symbol table of the program's own file, which lists what is linked into it. */
#ifndef BUBBLESCOPE_GGML_SYMTAB_H
#define BUBBLESCOPE_GGML_SYMTAB_H

/* The function or data of that name that is defined in the program, where it was loaded to. NULL if there is
 * none, as in one that is stripped, and where the file is in any way not as expected. */
void *symtab_find(const char *name);

#endif
