#define _GNU_SOURCE
#include "cupti_devices.h"
#include "spool.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MAJOR = 75, MINOR = 76 };

static struct {
    int (*get)(int *device, int number);
    int (*get_name)(char *name, int length, int device);
    int (*get_attribute)(int *value, int attribute, int device);
    int (*get_memory)(size_t *bytes, int device);
    int (*get_uuid)(unsigned char *uuid, int device);
    bool usable, seen[MOST];
} driver;

static bool find(void *library, const char *name, void *where) {
    void *found = dlsym(library, name);
    memcpy(where, &found, sizeof found);
    return found != NULL;
}

void devices_start(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    driver.usable = library != NULL && find(library, "cuDeviceGet", &driver.get) &&
                    find(library, "cuDeviceGetName", &driver.get_name) &&
                    find(library, "cuDeviceGetAttribute", &driver.get_attribute) &&
                    find(library, "cuDeviceTotalMem_v2", &driver.get_memory) &&
                    find(library, "cuDeviceGetUuid", &driver.get_uuid);
}

/* The rank of this process, where its launcher told it, as torchrun does. */
static int rank(void) {
    const char *text = getenv("RANK");
    char *end = NULL;
    long number = text != NULL ? strtol(text, &end, 10) : SPOOL_UNKNOWN;
    return text != NULL && *text != 0 && *end == 0 && number >= 0 && number < INT32_MAX ? (int)number
                                                                                        : SPOOL_UNKNOWN;
}

void devices_seen(uint16_t number) {
    if (number >= MOST || driver.seen[number])
        return;
    driver.seen[number] = true;
    int device = 0, major = 0, minor = 0;
    size_t memory = 0;
    unsigned char uuid[16] = {0};
    char model[128] = "", name[32], hex[33], json[384];
    if (!driver.usable || driver.get(&device, number) != 0)
        return;
    driver.get_name(model, sizeof model - 1, device);
    driver.get_attribute(&major, MAJOR, device);
    driver.get_attribute(&minor, MINOR, device);
    driver.get_memory(&memory, device);
    driver.get_uuid(uuid, device);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
    for (char *c = model; *c != 0; c++)
        if (*c < ' ' || *c == '"' || *c == '\\')
            *c = ' ';
    snprintf(name, sizeof name, "kernels:device:%u", number);
    snprintf(json, sizeof json,
             "{\"name\": \"%s\", \"capability\": \"%d.%d\", \"memory_bytes\": %zu, \"uuid\": \"%s\", "
             "\"rank\": %d}",
             model, major, minor, memory, hex, rank());
    spool_fact(name, json);
}
