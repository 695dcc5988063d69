/* Keeps a spool folder within its bounds: the oldest files go. */
#ifndef BUBBLESCOPE_ROOM_H
#define BUBBLESCOPE_ROOM_H

#include <stdint.h>

/* Removes the oldest files of a folder until `need` more bytes fit into `max_bytes`, and those whose
 * successor is older than `oldest_ns` (wall clock). Files that a process still writes to stay. Returns
 * how many events went with them. */
uint64_t room_make(const char *folder, int64_t need, int64_t max_bytes, int64_t oldest_ns);

#endif
