#define _GNU_SOURCE
#include "ggml/symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

struct search {
    const char *name;
    void *found, *own;
};

/* A library that was loaded into a scope of its own, as Python does, is not found by RTLD_NEXT. */
static int look_into(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    if (object->dlpi_name == NULL || object->dlpi_name[0] == 0)
        return 0;
    void *library = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return 0;
    void *found = dlsym(library, search->name);
    Dl_info where;
    if (found != NULL && dladdr(found, &where) != 0 && where.dli_fbase != search->own)
        search->found = found;
    dlclose(library);
    return search->found != NULL;
}

void *symbol_find(const char *name) {
    struct search search = {name, dlsym(RTLD_NEXT, name), NULL};
    Dl_info here;
    if (search.found == NULL && dladdr(__extension__(void *) symbol_find, &here) != 0) {
        search.own = here.dli_fbase;
        dl_iterate_phdr(look_into, &search);
    }
    return search.found;
}
