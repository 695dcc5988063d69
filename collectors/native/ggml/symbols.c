#define _GNU_SOURCE
#include "ggml/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return search.found != NULL ? search.found : symbol_in_program(name);
}

static struct {
    const unsigned char *bytes;
    size_t size;
    uintptr_t base;
} program;

static int base_of_program(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    *(uintptr_t *)data = object->dlpi_addr;
    return 1; /* the first one is the program */
}

static void map_program(void) {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && status.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            program.bytes = bytes;
            program.size = (size_t)status.st_size;
            dl_iterate_phdr(base_of_program, &program.base);
        }
    }
    close(file);
}

static const void *part(uint64_t offset, uint64_t size) {
    return offset <= program.size && size <= program.size - offset ? program.bytes + offset : NULL;
}

static void *in_table(const Elf64_Shdr *table, const Elf64_Shdr *texts, const char *name) {
    const Elf64_Sym *symbols = part(table->sh_offset, table->sh_size);
    const char *names = part(texts->sh_offset, texts->sh_size);
    if (symbols == NULL || names == NULL)
        return NULL;
    size_t length = strlen(name) + 1;
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        uint64_t at = symbols[i].st_name;
        if (symbols[i].st_value != 0 && at <= texts->sh_size && length <= texts->sh_size - at &&
            memcmp(names + at, name, length) == 0)
            return (void *)(program.base + symbols[i].st_value); /* NOLINT */
    }
    return NULL;
}

void *symbol_in_program(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, map_program);
    const Elf64_Ehdr *header = part(0, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    const Elf64_Shdr *sections = part(header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
    for (int i = 0; sections != NULL && i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum)
            return in_table(&sections[i], &sections[sections[i].sh_link], name);
    return NULL;
}
