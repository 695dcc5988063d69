#define _GNU_SOURCE
#include "room.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_SIZE 256
#define SLOT 64
#define DROPPED_AT 40

/* A spool file as its name tells it. The name is "{created}-{process}-{number}.spool". */
struct entry {
    char name[NAME_MAX + 1];
    int64_t created, size, successor; /* successor: when it was created; -1 if there is none */
    long number;
    size_t process_length;
};

static const char *process_of(const struct entry *entry) {
    return strchr(entry->name, '-') + 1;
}

static bool parsed(int folder, const char *name, struct entry *entry) {
    size_t length = strlen(name);
    if (length > NAME_MAX || length < 6 || strcmp(name + length - 6, ".spool") != 0)
        return false;
    memcpy(entry->name, name, length + 1);
    char *end, *last = strrchr(name, '-'), *first = strchr(name, '-');
    if (first == NULL || last <= first + 1)
        return false;
    entry->created = strtoll(name, &end, 10);
    if (end != first)
        return false;
    entry->number = strtol(last + 1, &end, 10);
    if (end == last + 1 || strcmp(end, ".spool") != 0)
        return false;
    entry->process_length = (size_t)(last - first - 1);
    entry->successor = -1;
    struct stat status;
    entry->size = fstatat(folder, name, &status, 0) == 0 ? status.st_size : 0;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static bool same_process(const struct entry *a, const struct entry *b) {
    return a->process_length == b->process_length &&
           memcmp(process_of(a), process_of(b), a->process_length) == 0;
}

/* The spool files of a folder, oldest first; NULL if there is none. */
static struct entry *entries(DIR *listing, size_t *count) {
    struct entry *found = NULL;
    size_t room = 0;
    *count = 0;
    for (struct dirent *next; (next = readdir(listing)) != NULL;) {
        if (*count == room) {
            struct entry *more = realloc(found, (room = room ? 2 * room : 64) * sizeof *found);
            if (more == NULL)
                break;
            found = more;
        }
        *count += parsed(dirfd(listing), next->d_name, &found[*count]);
    }
    if (*count == 0) {
        free(found);
        return NULL;
    }
    qsort(found, *count, sizeof *found, by_name);
    for (size_t i = 0; i < *count; i++)
        for (size_t j = i + 1; j < *count && found[i].successor < 0; j++)
            if (found[j].number == found[i].number + 1 && same_process(&found[i], &found[j]))
                found[i].successor = found[j].created;
    return found;
}

static bool in_use(int folder, const char *name) {
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return true;
    bool locked = flock(file, LOCK_EX | LOCK_NB) != 0;
    close(file);
    return locked;
}

/* How many events a process's last file holds, and what the process had dropped before: nobody else
 * goes on counting that. */
static uint64_t of_last_file(int folder, const struct entry *entry) {
    int file = openat(folder, entry->name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    uint64_t dropped = 0;
    if (pread(file, &dropped, sizeof dropped, DROPPED_AT) != (ssize_t)sizeof dropped)
        dropped = 0;
    unsigned char slots[64 * SLOT];
    off_t at = HEADER_SIZE;
    for (ssize_t got; (got = pread(file, slots, sizeof slots, at)) >= SLOT; at += got / SLOT * SLOT)
        for (ssize_t slot = 0; slot < got / SLOT; slot++)
            dropped += slots[slot * SLOT + SLOT - 1] != 0;
    close(file);
    return dropped;
}

/* Removes a file; returns how many events went with it. All but a process's last file are full. */
static uint64_t removed(int folder, const struct entry *entry) {
    uint64_t events = entry->size > HEADER_SIZE ? (uint64_t)(entry->size - HEADER_SIZE) / SLOT : 0;
    if (entry->successor < 0)
        events = of_last_file(folder, entry);
    return unlinkat(folder, entry->name, 0) == 0 ? events : 0; /* if it fails, another one counts it */
}

uint64_t room_make(const char *folder, int64_t need, int64_t max_bytes, int64_t oldest_ns) {
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return 0;
    size_t count;
    struct entry *found = entries(listing, &count);
    int64_t excess = need - max_bytes;
    for (size_t i = 0; i < count; i++)
        excess += found[i].size;
    uint64_t dropped = 0;
    for (size_t i = 0; i < count; i++) {
        bool has_successor = found[i].successor >= 0;
        bool outdated = has_successor && found[i].successor < oldest_ns;
        if ((excess > 0 || outdated) && (has_successor || !in_use(dirfd(listing), found[i].name))) {
            dropped += removed(dirfd(listing), &found[i]);
            excess -= found[i].size;
        }
    }
    free(found);
    closedir(listing);
    return dropped;
}
