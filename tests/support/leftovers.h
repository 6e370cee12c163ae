/* What a job must not leave behind: files in /dev/shm and /tmp, descriptors,
 * processes. Internal to the harness. */
#ifndef SUPPORT_LEFTOVERS_H
#define SUPPORT_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>

struct leftovers {
	int descriptors; /* open in this process */
	int dev_shm;     /* entries of /dev/shm with shunt in their name */
	int tmp;         /* files (no folders) of /tmp, likewise */
};

void leftovers_count(struct leftovers *leftovers);

/* True if nothing more is there than was `before`; else `why` tells. */
bool leftovers_check(const struct leftovers *before, char *why, size_t bytes);

/* The name of a file that a test leaves on purpose, to see it told: counted by
 * this process, and by no other, whose tests may run at the same time. Call it
 * in the process that counts. */
#define LEFTOVERS_DECOY_BYTES 32
const char *leftovers_decoy(char name[LEFTOVERS_DECOY_BYTES]);

/* Number of open descriptors and of mappings of this process. */
int leftovers_descriptors(void);
int leftovers_mappings(void);

/* Setup and teardown of a test that must leave as many descriptors as it finds;
 * and such a test, for cmocka. */
int leftovers_setup(void **state);
int leftovers_teardown(void **state);
#define LEFTOVERS_TEST(name)             \
	cmocka_unit_test_setup_teardown( \
		name, leftovers_setup, leftovers_teardown)

/* Resident memory of this process in bytes. */
long leftovers_resident(void);

#endif
