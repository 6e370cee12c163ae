/* A stranger's program: makes a world, and prints the library's version. */
#include <stdio.h>

#include <shunt/shunt.h>

int main(void)
{
	struct shunt_world *world;

	if (shunt_world_create(NULL, &world) != SHUNT_OK) {
		fprintf(stderr, "%s\n", shunt_error_message());
		return 1;
	}
	shunt_world_destroy(world);
	puts(shunt_version());
	return 0;
}
