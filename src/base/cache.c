/* Sizes of caches, asked once; see cache.h. */
#include "base/cache.h"

#include <pthread.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int64_t private_bytes;

static void ask(void)
{
	long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

	private_bytes = bytes > 0 ? bytes : INT64_C(1) << 20;
}

int64_t cache_private_bytes(void)
{
	pthread_once(&once, ask);
	return private_bytes;
}
