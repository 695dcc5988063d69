#define _GNU_SOURCE
#include "cupti_names.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 14 };

typedef char *(*demangle_function)(const char *mangled, char *buffer, size_t *length, int *status);

/* CUPTI gives all records of a kernel the same pointer; should a library be unloaded and another name come
 * to stand there, the copy tells. */
static struct {
    const char *pointer;
    char *mangled, *name;
} known[PLACES];

/* The C++ runtime's own function, where the process has one. */
static demangle_function demangler(void) {
    void *found = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (found == NULL) {
        void *runtime = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        found = runtime != NULL ? dlsym(runtime, "__cxa_demangle") : NULL;
    }
    demangle_function function = NULL;
    memcpy(&function, &found, sizeof found);
    return function;
}

static char *demangled(const char *mangled) {
    static demangle_function function;
    static int looked;
    if (!looked)
        function = demangler();
    looked = 1;
    int status = 0;
    char *name = function != NULL && strncmp(mangled, "_Z", 2) == 0
                     ? function(mangled, NULL, NULL, &status)
                     : NULL;
    return name != NULL ? name : strdup(mangled);
}

const char *names_of_kernel(const char *mangled) {
    if (mangled == NULL)
        return "kernel";
    size_t place = ((uintptr_t)mangled >> 3) % PLACES;
    for (size_t tries = 0; tries < PLACES; tries++, place = (place + 1) % PLACES) {
        if (known[place].pointer == mangled && strcmp(known[place].mangled, mangled) == 0)
            return known[place].name;
        if (known[place].pointer != NULL)
            continue;
        char *copy = strdup(mangled), *name = demangled(mangled);
        if (copy == NULL || name == NULL)
            break;
        known[place].mangled = copy;
        known[place].name = name;
        known[place].pointer = mangled;
        return name;
    }
    return mangled;
}

const char *names_of_copy(uint8_t copy_kind) {
    static const char *const names[] = {
        "Memcpy", "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
        "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP",
    };
    return copy_kind < sizeof names / sizeof *names ? names[copy_kind] : names[0];
}
