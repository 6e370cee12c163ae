/*
 * The wide copy loops for one instruction set; copies.c includes this once
 * for each, with WIDE (names), WIDE_TARGET (attribute) and WIDE_STREAM
 * (stores 64 bytes past the caches) defined.
 */

static inline __attribute__((always_inline)) WIDE_TARGET void WIDE(store)(
	uint8_t *to, const wide_t *line, bool stream)
{
	if (stream)
		WIDE_STREAM(to, line);
	else
		*(wide_t *)to = *line;
}

static inline __attribute__((always_inline)) WIDE_TARGET void WIDE(copy_any)(
	uint8_t *to, const uint8_t *from, size_t num_bytes, bool stream)
{
	size_t i = head_of(to, num_bytes, stream);

	memcpy(to, from, i);
	for (; i + 256 <= num_bytes; i += 256)
		for (size_t j = i; j < i + 256; j += 64)
			WIDE(store)(to + j, (const wide_t *)(from + j), stream);
	for (; i + 64 <= num_bytes; i += 64)
		WIDE(store)(to + i, (const wide_t *)(from + i), stream);
	memcpy(to + i, from + i, num_bytes - i);
}

static inline __attribute__((always_inline)) WIDE_TARGET void WIDE(merge_any)(
	uint8_t *to, const uint8_t *const *from, int64_t count,
	size_t num_bytes, bool stream)
{
	size_t i = head_of(to, num_bytes, stream);

	merge_bytes(to, from, count, 0, i);
	for (; i + 128 <= num_bytes; i += 128) {
		wide_t low = {0};
		wide_t high = {0};

		for (int64_t k = 0; k < count; k++) {
			__builtin_prefetch(from[k] + i + MERGE_AHEAD);
			low ^= *(const wide_t *)(from[k] + i);
			high ^= *(const wide_t *)(from[k] + i + 64);
		}
		WIDE(store)(to + i, &low, stream);
		WIDE(store)(to + i + 64, &high, stream);
	}
	merge_bytes(to, from, count, i, num_bytes);
}

static WIDE_TARGET void WIDE(copy)(
	uint8_t *to, const uint8_t *from, size_t num_bytes)
{
	WIDE(copy_any)(to, from, num_bytes, false);
}

static WIDE_TARGET void WIDE(copy_stream)(
	uint8_t *to, const uint8_t *from, size_t num_bytes)
{
	WIDE(copy_any)(to, from, num_bytes, true);
}

static WIDE_TARGET void WIDE(merge)(uint8_t *to, const uint8_t *const *from,
	int64_t count, size_t num_bytes)
{
	WIDE(merge_any)(to, from, count, num_bytes, false);
}

static WIDE_TARGET void WIDE(merge_stream)(uint8_t *to,
	const uint8_t *const *from, int64_t count, size_t num_bytes)
{
	WIDE(merge_any)(to, from, count, num_bytes, true);
}

static const struct copies WIDE(wide)[] = {
	{"wide stores", WIDE(copy), WIDE(merge), finish_nothing},
	{"streaming stores", WIDE(copy_stream), WIDE(merge_stream),
		finish_streaming},
};

#undef WIDE
#undef WIDE_TARGET
#undef WIDE_STREAM
