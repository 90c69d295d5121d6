/* SPDX-License-Identifier: Apache-2.0 */
/* meter/files.c: the journal's files, read.
 *
 * For:       which files a directory has, in their order, and the lines of each.
 * Called by: history.c, recover.c, store.c, ledger*.c, audit.c, keeper.c, books.c.
 * Knows not: what is in a line. */
#include "meter/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/hash.h"

#define JOURNAL_ENDING ".jsonl"
#define US_PER_S 1000000
#define NS_PER_US 1000

/* Takes "-<number>" off the end of text: digits as we write them, that fit int64_t. */
static bool take_number(struct span *text, uint64_t *out_number)
{
    size_t start = text->size;
    int64_t number;

    while (start > 0 && text->data[start - 1] >= '0' && text->data[start - 1] <= '9')
        start--;
    if (start == 0 || text->data[start - 1] != '-' ||
        !span_to_int64(span_from(*text, start), &number) ||
        (text->data[start] == '0' && text->size > start + 1))
        return false;
    *out_number = (uint64_t)number;
    text->size = start - 1;
    return true;
}

static bool take_ending(struct span *text, struct span ending)
{
    if (text->size < ending.size || !span_equal(span_from(*text, text->size - ending.size), ending))
        return false;
    text->size -= ending.size;
    return true;
}

void files_print_name(struct span gateway, uint64_t epoch, uint64_t first_seq,
                      char out[NAME_MAX + 1])
{
    (void)snprintf(out, NAME_MAX + 1, "%.*s-%" PRIu64 "-%" PRIu64 JOURNAL_ENDING, (int)gateway.size,
                   gateway.data, epoch, first_seq);
}

void files_print_table_name(struct span gateway, uint64_t epoch, char out[NAME_MAX + 1])
{
    (void)snprintf(out, NAME_MAX + 1, "%.*s-%" PRIu64 FILES_TABLE_ENDING, (int)gateway.size,
                   gateway.data, epoch);
}

bool files_parse_name(const char *name, struct journal_file *out_file)
{
    const struct span others[] = {SPAN(FILES_TABLE_ENDING), SPAN(FILES_TABLE_ENDING ".dead"),
                                  SPAN(FILES_TABLE_ENDING ".damaged")};
    struct span text = span_of(name);
    struct journal_file file = {.first_seq = 0};
    bool ours = false;

    if (text.size > NAME_MAX)
        return false;
    if (take_ending(&text, SPAN(JOURNAL_ENDING)))
        ours = take_number(&text, &file.first_seq);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !ours; i++)
        ours = take_ending(&text, others[i]);
    if (!ours || !take_number(&text, &file.epoch) || text.size == 0 ||
        text.size >= sizeof(file.gateway))
        return false;
    memcpy(file.name, name, strlen(name));
    memcpy(file.gateway, text.data, text.size);
    *out_file = file;
    return true;
}

/* Of what order are files read in? */
static int compare_files(const void *left, const void *right)
{
    const struct journal_file *a = left;
    const struct journal_file *b = right;
    const int gateways = strcmp(a->gateway, b->gateway);

    if (gateways != 0)
        return gateways;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return a->first_seq < b->first_seq ? -1 : a->first_seq > b->first_seq;
}

/* false: it is gone, or no file. */
static bool ask_about(int directory_fd, struct journal_file *file)
{
    struct stat about;

    if (fstatat(directory_fd, file->name, &about, 0) != 0 || !S_ISREG(about.st_mode))
        return false;
    file->bytes = (int64_t)about.st_size;
    file->modified_us =
        (int64_t)about.st_mtim.tv_sec * US_PER_S + about.st_mtim.tv_nsec / NS_PER_US;
    return true;
}

/* files grows as it must; the caller frees it. */
static enum err gather(DIR *directory, int directory_fd, struct journal_file **files, size_t *count)
{
    const struct dirent *entry;
    size_t room = 0;

    while ((errno = 0, entry = readdir(directory)) != NULL) {
        struct journal_file file;
        if (!files_parse_name(entry->d_name, &file) || file.first_seq == 0 ||
            !ask_about(directory_fd, &file))
            continue;
        if (*count == room) {
            struct journal_file *more;
            room = room > 0 ? 2 * room : 64;
            more = realloc(*files, room * sizeof(**files));
            if (!more)
                return ERR_NO_MEMORY;
            *files = more;
        }
        (*files)[(*count)++] = file;
    }
    return errno == 0 ? OK : ERR_INTERNAL;
}

enum err files_list(int directory_fd, struct journal_file **out_files, size_t *out_count,
                    char *problem, size_t problem_size)
{
    const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    struct journal_file *files = NULL;
    size_t count = 0;
    enum err err = directory ? gather(directory, directory_fd, &files, &count) : ERR_INTERNAL;

    if (err != OK)
        (void)snprintf(problem, problem_size, "reading the journal directory: %s",
                       err == ERR_NO_MEMORY ? "no memory" : strerror(errno));
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
    if (err != OK) {
        free(files);
        return err;
    }
    if (count > 0)
        qsort(files, count, sizeof(*files), compare_files);
    *out_files = files;
    *out_count = count;
    return OK;
}

/* *out_data: NULL for an empty file. false: errno says. */
static bool map_file(int fd, const char **out_data, size_t *out_bytes)
{
    struct stat about;
    void *mapping;

    if (fstat(fd, &about) != 0)
        return false;
    *out_data = NULL;
    *out_bytes = (size_t)about.st_size;
    if (*out_bytes == 0)
        return true;
    mapping = mmap(NULL, *out_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        return false;
    *out_data = mapping;
    return true;
}

enum err lines_open(int directory_fd, const char *name, size_t at, struct lines *out_lines)
{
    const int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
    struct lines lines = {.at = at};
    bool mapped;
    int problem;

    if (fd < 0)
        return ERR_INTERNAL;
    mapped = map_file(fd, &lines.data, &lines.bytes);
    problem = errno;
    close(fd);
    if (!mapped) {
        errno = problem;
        return ERR_INTERNAL;
    }
    *out_lines = lines;
    return OK;
}

void lines_close(struct lines *lines)
{
    if (lines->data)
        munmap((void *)(uintptr_t)lines->data, lines->bytes);
    *lines = (struct lines){.data = NULL};
}

enum line_state lines_next(struct lines *lines, struct span *out_line)
{
    const char *start, *end;

    if (!lines->data || lines->at >= lines->bytes)
        return LINE_END;
    start = lines->data + lines->at;
    end = memchr(start, '\n', lines->bytes - lines->at);
    if (!end)
        return LINE_TORN;
    *out_line = (struct span){start, (size_t)(end - start)};
    lines->at += out_line->size + 1;
    return LINE_WHOLE;
}

void line_hash(struct span line, char out[65])
{
    uint8_t digest[HASH_SHA256_BYTES];

    hash_sha256(line, digest);
    hash_hex(digest, sizeof(digest), out);
}
