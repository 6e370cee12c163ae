/* Small files of /proc and /sys, read with limits: whatever they hold, what
 * comes back is one short line of printable ASCII. */
#ifndef BENCH_DOCTOR_FILES_H
#define BENCH_DOCTOR_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_LINE_BYTES  128
#define FILES_MAX_ENTRIES 256

/* The first line of the file that `format` names, without spaces at its ends,
 * other bytes as '?', cut to fit. False with errno, and "", if it cannot be
 * read. */
__attribute__((format(printf, 2, 3))) bool files_line(
	char line[FILES_LINE_BYTES], const char *format, ...);

/* A file that begins with a whole number; false if it does not. */
__attribute__((format(printf, 2, 3))) bool files_number(
	int64_t *number, const char *format, ...);

/* The number behind "name:" in a file of such lines; false if not there. */
bool files_field(const char *path, const char *name, int64_t *number);

/* The word in brackets of a file like "always [madvise] never"; false, and "",
 * if there is none. */
bool files_choice(char choice[FILES_LINE_BYTES], const char *path);

/*
 * The names in a folder that are printable ASCII and not hidden, numbers by
 * value, then the others by their bytes; the first FILES_MAX_ENTRIES of these.
 * *names is to be freed, with what it points to, by files_free(). Returns how many;
 * -1 with errno.
 */
int files_list(const char *folder, char ***names);
void files_free(char **names, int num_names);

/* True if a line of the file has `text` in it. */
bool files_has(const char *path, const char *text);

#endif
