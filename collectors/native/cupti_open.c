/* Finds libcupti: the one that is loaded already, else the one that lies beside the process's CUDA. */
#define _GNU_SOURCE
#include "cupti_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 12, NEWEST = 13, MOST_FOLDERS = 16 };

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Libraries whose folder tells where CUDA lies, and where libcupti lies from there: in a toolkit, or
 * among what Python packages bring. %d is the major version. */
static const char *const marks[] = {"/libcudart.so", "/libtorch_cpu.so", "/libc10_cuda.so", "/libnccl.so"};
static const char *const beside[] = {
    "libcupti.so.%d", "../extras/CUPTI/lib64/libcupti.so.%d", "../../cuda_cupti/lib/libcupti.so.%d",
    "../../cu%d/lib/libcupti.so.%d", "../../nvidia/cuda_cupti/lib/libcupti.so.%d",
    "../../nvidia/cu%d/lib/libcupti.so.%d",
};
static const char *const in_toolkit[] = {"lib64/libcupti.so.%d", "extras/CUPTI/lib64/libcupti.so.%d"};

struct folders {
    size_t count;
    char paths[MOST_FOLDERS][PATH_MAX];
};

static int note_folder(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct folders *folders = data;
    for (size_t i = 0; i < COUNT(marks) && folders->count < MOST_FOLDERS; i++) {
        const char *name = strstr(info->dlpi_name, marks[i]);
        if (name != NULL && name - info->dlpi_name < PATH_MAX)
            snprintf(folders->paths[folders->count++], PATH_MAX, "%.*s", (int)(name - info->dlpi_name),
                     info->dlpi_name);
    }
    return 0;
}

static void *opened_in(const char *folder, const char *const *places, size_t count, int major) {
    void *library = NULL;
    for (size_t i = 0; i < count && library == NULL; i++) {
        char place[96], path[PATH_MAX];
        snprintf(place, sizeof place, places[i], major, major);
        if (snprintf(path, sizeof path, "%s/%s", folder, place) < (int)sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* Where to look, in this order: what a process uses of CUDA is the version that it was made for. */
enum place { LOADED, BESIDE_CUDA, ON_PATH, IN_TOOLKIT, PLACES };

static void *opened(enum place place, int major, const struct folders *folders) {
    char name[32];
    snprintf(name, sizeof name, "libcupti.so.%d", major);
    if (place == LOADED || place == ON_PATH)
        return dlopen(name, RTLD_NOW | RTLD_LOCAL | (place == LOADED ? RTLD_NOLOAD : 0));
    void *library = NULL;
    for (size_t i = 0; place == BESIDE_CUDA && i < folders->count && library == NULL; i++)
        library = opened_in(folders->paths[i], beside, COUNT(beside), major);
    const char *toolkits[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; place == IN_TOOLKIT && i < COUNT(toolkits) && library == NULL; i++)
        if (toolkits[i] != NULL && *toolkits[i] != 0)
            library = opened_in(toolkits[i], in_toolkit, COUNT(in_toolkit), major);
    return library;
}

static bool filled(struct cupti *cupti, void *library) {
    const struct {
        const char *name;
        void *where;
    } functions[] = {
        {"cuptiGetVersion", &cupti->get_version},
        {"cuptiGetResultString", &cupti->get_result_string},
        {"cuptiSubscribe", &cupti->subscribe},
        {"cuptiEnableCallback", &cupti->enable_callback},
        {"cuptiActivityRegisterTimestampCallback", &cupti->register_timestamp_callback},
        {"cuptiActivityRegisterCallbacks", &cupti->register_callbacks},
        {"cuptiActivitySetAttribute", &cupti->set_attribute},
        {"cuptiActivityEnable", &cupti->enable},
        {"cuptiActivityFlushAll", &cupti->flush_all},
        {"cuptiActivityGetNextRecord", &cupti->get_next_record},
        {"cuptiActivityGetNumDroppedRecords", &cupti->get_dropped},
    };
    for (size_t i = 0; i < COUNT(functions); i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL)
            return false;
        memcpy(functions[i].where, &found, sizeof found);
    }
    return true;
}

const char *cupti_open(struct cupti *cupti, int driver_version) {
    int newest = driver_version / 1000 < NEWEST ? driver_version / 1000 : NEWEST;
    struct folders *folders = calloc(1, sizeof *folders);
    if (folders == NULL)
        return "there was no memory left";
    dl_iterate_phdr(note_folder, folders);
    bool old = false, good = false;
    for (enum place place = LOADED; place < PLACES && !good; place++)
        for (int major = newest; major >= OLDEST && !good; major--) {
            void *library = opened(place, major, folders);
            good = library != NULL && filled(cupti, library);
            old |= library != NULL;
        }
    free(folders);
    if (good)
        return NULL;
    return old ? "the CUPTI library found is older than 12.1"
               : "no CUPTI library (libcupti.so.12 or .13) that goes with the driver was found";
}
