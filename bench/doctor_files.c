/* Reading small files; see doctor_files.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor_files.h"

#define MOST_READ 65536 /* names of a folder */

static bool is_printable(char byte)
{
	return byte >= ' ' && byte <= '~';
}

/* Makes the first `length` bytes of a line fit for print. */
static void clean(char *line, size_t length)
{
	size_t start = 0, end;

	for (end = 0; end < length && line[end] != '\n'; end++)
		if (!is_printable(line[end]))
			line[end] = line[end] == '\t' ? ' ' : '?';
	while (start < end && line[start] == ' ')
		start++;
	while (end > start && line[end - 1] == ' ')
		end--;
	memmove(line, line + start, end - start);
	line[end - start] = '\0';
}

static bool read_line(const char *path, char line[FILES_LINE_BYTES])
{
	/* A pipe or device in place of the file shall not block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t got;
	int error;

	line[0] = '\0';
	if (fd < 0)
		return false;
	got = read(fd, line, FILES_LINE_BYTES - 1);
	error = errno;
	close(fd);
	errno = error;
	clean(line, got > 0 ? (size_t)got : 0);
	return got >= 0;
}

static bool make_path(char path[PATH_MAX], const char *format, va_list args)
{
	if (vsnprintf(path, PATH_MAX, format, args) < PATH_MAX)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

bool files_line(char line[FILES_LINE_BYTES], const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	bool fits;

	line[0] = '\0';
	va_start(args, format);
	fits = make_path(path, format, args);
	va_end(args);
	return fits && read_line(path, line);
}

bool files_number(int64_t *number, const char *format, ...)
{
	char line[FILES_LINE_BYTES];
	char path[PATH_MAX];
	va_list args;
	bool fits;
	char *end;

	va_start(args, format);
	fits = make_path(path, format, args);
	va_end(args);
	if (!fits || !read_line(path, line))
		return false;
	errno = 0;
	*number = strtoll(line, &end, 10);
	return end != line && errno == 0;
}

bool files_field(const char *path, const char *name, int64_t *number)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(name);
	char line[256];
	long long value;
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, name, length) && line[length] == ':' &&
			sscanf(line + length + 1, "%lld", &value) == 1;
	if (file)
		fclose(file);
	if (found)
		*number = value;
	return found;
}

bool files_choice(char choice[FILES_LINE_BYTES], const char *path)
{
	char line[FILES_LINE_BYTES];
	char *start, *end;

	choice[0] = '\0';
	if (!read_line(path, line))
		return false;
	start = strchr(line, '[');
	end = start ? strchr(start, ']') : NULL;
	if (!end)
		return false;
	*end = '\0';
	snprintf(choice, FILES_LINE_BYTES, "%s", start + 1);
	return true;
}

/* ---- folders ----------------------------------------------------------- */

static bool is_number(const char *name)
{
	return name[0] && strspn(name, "0123456789") == strlen(name);
}

static bool is_listed(const char *name)
{
	if (name[0] == '.')
		return false;
	while (is_printable(*name))
		name++;
	return *name == '\0';
}

static int compare_names(const void *a, const void *b)
{
	const char *one = *(char *const *)a, *other = *(char *const *)b;
	bool numbers = is_number(one) && is_number(other);

	if (numbers && strlen(one) != strlen(other))
		return strlen(one) < strlen(other) ? -1 : 1;
	if (is_number(one) != is_number(other))
		return is_number(one) ? -1 : 1;
	return strcmp(one, other);
}

/* All names of a folder that are listed, in no order. */
static int read_names(DIR *directory, char ***names)
{
	const struct dirent *entry;
	size_t room = 0;
	int num = 0;

	while ((entry = readdir(directory)) && num < MOST_READ) {
		if (!is_listed(entry->d_name))
			continue;
		if ((size_t)num == room) {
			char **grown = reallocarray(
				*names, 2 * room + 64, sizeof(**names));

			if (!grown)
				break;
			*names = grown;
			room = 2 * room + 64;
		}
		(*names)[num] = strdup(entry->d_name);
		num += (*names)[num] != NULL;
	}
	return num;
}

int files_list(const char *folder, char ***names)
{
	DIR *directory = opendir(folder);
	int num;

	*names = NULL;
	if (!directory)
		return -1;
	num = read_names(directory, names);
	closedir(directory);
	if (!*names)
		return 0;
	qsort(*names, (size_t)num, sizeof(**names), compare_names);
	/* Soft-RoCE has 1024 GIDs, and a folder has no order. */
	for (; num > FILES_MAX_ENTRIES; num--)
		free((*names)[num - 1]);
	return num;
}

void files_free(char **names, int num_names)
{
	for (int i = 0; i < num_names; i++)
		free(names[i]);
	free(names);
}

bool files_has(const char *path, const char *text)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (file && !found && getline(&line, &room, file) > 0)
		found = strstr(line, text) != NULL;
	free(line);
	if (file)
		fclose(file);
	return found;
}
