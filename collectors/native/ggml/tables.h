/* Functions of ours in ggml's function tables. The scheduler calls through them what no symbol shows:
 * copies between devices most of all. */
#ifndef BUBBLESCOPE_GGML_TABLES_H
#define BUBBLESCOPE_GGML_TABLES_H

#include "ggml/api.h"

/* Puts ours into the tables of a backend and of its device. */
void tables_of_backend(ggml_object backend);

/* Puts ours into the table of a buffer, unless it is in the CPU's memory. */
void tables_of_buffer(ggml_object buffer, ggml_object type);

#endif
