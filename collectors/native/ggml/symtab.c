#define _GNU_SOURCE
#include "ggml/symtab.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const unsigned char *bytes;
    uint64_t size;
} program;

/* Its symbols, and their names; `count` is 0 where there are none to use. */
static struct {
    const Elf64_Sym *symbols;
    const char *names;
    uint64_t count, names_size;
} table;

/* So much of the file, if it is all there and lies as its type has to. */
static const void *part(uint64_t offset, uint64_t size, uint64_t alignment) {
    bool whole = offset <= program.size && size <= program.size - offset && offset % alignment == 0;
    return whole ? program.bytes + offset : NULL;
}

static void map_program(void) {
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return;
    if (fstat(file, &status) == 0 && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            program.bytes = bytes;
            program.size = (uint64_t)status.st_size;
        }
    }
    close(file);
}

static void find_table(void) {
    map_program();
    const Elf64_Ehdr *header = part(0, sizeof *header, 1);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
        return;
    const Elf64_Shdr *sections =
        part(header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections, _Alignof(Elf64_Shdr));
    for (int i = 0; sections != NULL && i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum)
            continue;
        const Elf64_Shdr *texts = &sections[sections[i].sh_link];
        table.symbols = part(sections[i].sh_offset, sections[i].sh_size, _Alignof(Elf64_Sym));
        table.names = part(texts->sh_offset, texts->sh_size, 1);
        table.names_size = texts->sh_size;
        if (table.symbols != NULL && table.names != NULL)
            table.count = sections[i].sh_size / sizeof *table.symbols;
        return;
    }
}

/* An address of the file, and where it was loaded to. */
struct place {
    uint64_t address;
    void *loaded;
};

static int place_in_program(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct place *place = data;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && place->address >= segment->p_vaddr &&
            place->address - segment->p_vaddr < segment->p_memsz)
            place->loaded = (void *)(object->dlpi_addr + place->address); /* NOLINT */
    }
    return 1; /* the first one is the program */
}

void *symtab_find(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_table);
    size_t length = strlen(name) + 1;
    for (uint64_t i = 0; i < table.count; i++) {
        const Elf64_Sym *symbol = &table.symbols[i];
        int type = ELF64_ST_TYPE(symbol->st_info);
        if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT) ||
            symbol->st_name > table.names_size || length > table.names_size - symbol->st_name ||
            memcmp(table.names + symbol->st_name, name, length) != 0)
            continue;
        struct place place = {symbol->st_value, NULL};
        dl_iterate_phdr(place_in_program, &place);
        return place.loaded;
    }
    return NULL;
}
