/* One spool file: memory shared with the page cache, so that an event outlives its process. */
#ifndef BUBBLESCOPE_SPOOL_FILE_H
#define BUBBLESCOPE_SPOOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEADER_SIZE = 256, SLOT_SIZE = 64, TYPE_AT = 62, STATE_AT = 63, DROPPED_AT = 40, TEXTS = 4096 };
enum spool_state { SPOOL_EMPTY, SPOOL_OPEN, SPOOL_COMPLETE };
/* What happens to a file: it is free, written to, full, and then free again. `life` counts on through
 * these, so that no two lives of one file are taken for each other. */
enum file_life { FILE_FREE, FILE_CURRENT, FILE_RETIRED, FILE_CLOSING, FILE_LIVES };

/* users: threads and open spans that may write to the mapping, which goes with the last of them.
 * next: offset of the next free slot; at or beyond `size` the file is full.
 * texts: what was written, as slot number + 1 and the text's number; open addressing, 0 is empty. */
struct spool_file {
    unsigned char *bytes;
    uint32_t size, number, next, next_text, users, life;
    uint64_t texts[TEXTS];
};

/* Makes and maps `{folder}/{created}-{process}-{number}.spool`, its disk space taken: a mapped page that
 * the disk has no room for would kill the engine. False where that fails; then nothing is left of it. */
bool file_create(struct spool_file *file, const char *folder, const char *process, uint32_t number,
                 uint32_t size);
void file_unmap(struct spool_file *file);

/* Takes slots that follow each other; returns the offset of the first, 0 if there is no room. */
uint32_t file_take(struct spool_file *file, uint32_t slots);

/* Fills in a slot that was taken, its state last. */
void file_fill(struct spool_file *file, uint32_t offset, const void *bytes, uint8_t type, uint8_t state);

/* Writes a text, or finds it where it was written before; false if there is no room. */
bool file_text(struct spool_file *file, const char *text, size_t longest, uint32_t *number);

/* Raises a count of the header to a total. */
void file_count(struct spool_file *file, uint32_t at, uint64_t total);

#endif
