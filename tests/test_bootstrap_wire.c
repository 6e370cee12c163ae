/* The frames of the meeting over TCP, and how a visitor proves itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "bootstrap/report.h"
#include "bootstrap/visitor.h"
#include "support/meet.h"

struct handshake {
	struct visitor_terms terms;
	struct visitor visitor;
	uint8_t bytes[WIRE_CLIENT_HELLO_BYTES + WIRE_MAX_BODY];
	size_t num_bytes;
	uint8_t blob[MEET_BLOB_BYTES];
};

static void prepare_handshake(
	struct handshake *shake, const struct wire_client *client)
{
	struct wire_session session;

	memset(shake, 0, sizeof(*shake));
	wire_derive_key(shake->terms.key, "key", "job");
	shake->terms.version = client->version;
	shake->terms.blob_bytes = MEET_BLOB_BYTES;
	memset(shake->blob, 0x5a, sizeof(shake->blob));
	visitor_greet(&shake->visitor, &shake->terms);
	wire_write_client_hello(shake->bytes, client, shake->terms.key,
		shake->visitor.root_hello);
	wire_derive_session(&session, shake->terms.key,
		shake->visitor.root_hello, shake->bytes);
	wire_seal(shake->bytes + WIRE_CLIENT_HELLO_BYTES, shake->blob,
		sizeof(shake->blob), session.up);
	shake->num_bytes = WIRE_CLIENT_HELLO_BYTES + client->body_bytes;
}

/* Feeds the bytes in pieces of at most `piece`, until they or the visitor's
 * patience are at their end. */
static enum visitor_stage feed(struct handshake *shake, size_t piece)
{
	struct visitor *visitor = &shake->visitor;
	size_t done = 0;

	while (done < shake->num_bytes && visitor->stage < VISITOR_PROVEN) {
		size_t wanted;
		uint8_t *space = visitor_space(visitor, &wanted);
		size_t take = wanted < piece ? wanted : piece;

		memcpy(space, shake->bytes + done, take);
		visitor_take(visitor, &shake->terms, take);
		done += take;
	}
	return visitor->stage;
}

static const struct wire_client good_client = {
	.version = {1, 2, 3},
	.rank = 5,
	.num_ranks = 8,
	.blob_bytes = MEET_BLOB_BYTES,
	.body_bytes = MEET_BLOB_BYTES + WIRE_SEAL_BYTES,
	.instance = "instance of 5",
};

static void a_hello_may_come_in_any_pieces(void **state)
{
	struct handshake *shake = malloc(sizeof(*shake));

	(void)state;
	for (size_t piece = 1; piece < 200; piece++) {
		prepare_handshake(shake, &good_client);
		assert_int_equal(feed(shake, piece), VISITOR_PROVEN);
		assert_int_equal(shake->visitor.hello.rank, 5);
		assert_int_equal(shake->visitor.hello.num_ranks, 8);
		assert_memory_equal(
			shake->visitor.blob, shake->blob, MEET_BLOB_BYTES);
	}
	free(shake);
}

static void a_hello_with_any_bit_changed_proves_nothing(void **state)
{
	struct handshake *shake = malloc(sizeof(*shake));
	size_t num_bits = 8 * (WIRE_CLIENT_HELLO_BYTES + MEET_BLOB_BYTES +
				      WIRE_SEAL_BYTES);

	(void)state;
	for (size_t bit = 0; bit < num_bits; bit++) {
		prepare_handshake(shake, &good_client);
		shake->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(feed(shake, SIZE_MAX), VISITOR_STRANGER);
	}
	free(shake);
}

static void impossible_numbers_are_refused_even_with_the_key(void **state)
{
	struct handshake *shake = malloc(sizeof(*shake));
	struct wire_client bad[5];

	(void)state;
	for (int i = 0; i < 5; i++)
		bad[i] = good_client;
	bad[0].rank = 8;
	bad[1].rank = UINT32_MAX;
	bad[2].num_ranks = BOOTSTRAP_MAX_RANKS + 1;
	bad[3].body_bytes = WIRE_MAX_BODY + 1;
	bad[4].body_bytes = 7; /* not what a blob takes */
	for (int i = 0; i < 5; i++) {
		prepare_handshake(shake, &bad[i]);
		if (shake->num_bytes > sizeof(shake->bytes))
			shake->num_bytes = sizeof(shake->bytes);
		assert_int_equal(feed(shake, SIZE_MAX), VISITOR_STRANGER);
	}
	free(shake);
}

static void a_body_of_another_version_is_not_read(void **state)
{
	struct handshake *shake = malloc(sizeof(*shake));
	struct wire_client other = good_client;

	(void)state;
	other.body_bytes = WIRE_MAX_BODY;
	prepare_handshake(shake, &other);
	shake->terms.version.minor++;
	assert_int_equal(feed(shake, SIZE_MAX), VISITOR_PROVEN);
	assert_false(visitor_is_akin(&shake->visitor, &shake->terms));
	free(shake);
}

static void keys_differ_by_text_and_by_job(void **state)
{
	static const char *const pairs[][2] = {{"", ""}, {"a", ""}, {"", "a"},
		{"b", "a"}, {"ab", ""}, {"a", "b"}, {"", "ab"}, {"ba", ""}};
	uint8_t keys[8][WIRE_KEY_BYTES];

	(void)state;
	for (int i = 0; i < 8; i++) {
		wire_derive_key(keys[i], pairs[i][0], pairs[i][1]);
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(
				keys[i], keys[j], WIRE_KEY_BYTES);
	}
}

static void what_is_sealed_opens_with_its_key_alone(void **state)
{
	uint8_t key[WIRE_KEY_BYTES] = {1};
	uint8_t sealed[5 + WIRE_SEAL_BYTES];
	uint8_t plain[sizeof(sealed)] = {0};

	(void)state;
	wire_seal(sealed, "hello", 5, key);
	assert_true(wire_open(plain, sealed, sizeof(sealed), key));
	assert_memory_equal(plain, "hello", 5);
	for (size_t cut = 0; cut < sizeof(sealed); cut++)
		assert_false(wire_open(plain, sealed, cut, key));
	key[31] ^= 1;
	assert_false(wire_open(plain, sealed, sizeof(sealed), key));
	key[31] ^= 1;
	assert_true(wire_open(sealed, sealed, sizeof(sealed), key));
	assert_memory_equal(sealed, "hello", 5);
}

static void a_verdict_is_read_as_it_was_written(void **state)
{
	struct wire_verdict verdict = {SHUNT_TIMEOUT, 50, "secret"};
	struct wire_verdict got;
	uint8_t bytes[WIRE_VERDICT_BYTES];

	(void)state;
	wire_write_verdict(bytes, &verdict);
	assert_true(wire_read_verdict(bytes, &got));
	assert_int_equal(got.status, SHUNT_TIMEOUT);
	assert_int_equal(got.table_bytes, 50);
	assert_memory_equal(got.secret, verdict.secret, 32);
	verdict.table_bytes = WIRE_SEAL_BYTES - 1;
	wire_write_verdict(bytes, &verdict);
	assert_false(wire_read_verdict(bytes, &got));
	verdict.table_bytes = UINT32_MAX;
	wire_write_verdict(bytes, &verdict);
	assert_false(wire_read_verdict(bytes, &got));
	verdict.table_bytes = 50;
	verdict.status = SHUNT_NUM_STATUSES;
	wire_write_verdict(bytes, &verdict);
	assert_false(wire_read_verdict(bytes, &got));
}

static void a_report_is_read_as_it_was_written(void **state)
{
	struct wire_report *report = malloc(sizeof(*report));
	struct wire_report *got = malloc(sizeof(*got));
	uint8_t *bytes = malloc(WIRE_MAX_REPORT);
	size_t num_bytes;

	(void)state;
	report_start(report, "all of %d", BOOTSTRAP_MAX_RANKS);
	for (int32_t rank = 0; rank <= BOOTSTRAP_MAX_RANKS; rank++)
		report_add_rank(report, rank);
	for (int i = 0; i < 2 * WIRE_MAX_MESSAGE; i++)
		report_append(report, "x");
	num_bytes = wire_write_report(bytes, report);
	assert_int_equal(num_bytes, WIRE_MAX_REPORT);
	assert_true(wire_read_report(bytes, num_bytes, got));
	assert_string_equal(got->message, report->message);
	assert_int_equal(got->num_ranks, BOOTSTRAP_MAX_RANKS);
	assert_memory_equal(got->ranks, report->ranks, sizeof(report->ranks));
	/* Cut in the ranks, or with more ranks than there may be. */
	assert_false(wire_read_report(bytes, 3, got));
	assert_false(wire_read_report(bytes, 4 * BOOTSTRAP_MAX_RANKS, got));
	bytes[2] = 1;
	assert_false(wire_read_report(bytes, num_bytes, got));
	free(report);
	free(got);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_may_come_in_any_pieces),
		cmocka_unit_test(a_hello_with_any_bit_changed_proves_nothing),
		cmocka_unit_test(
			impossible_numbers_are_refused_even_with_the_key),
		cmocka_unit_test(a_body_of_another_version_is_not_read),
		cmocka_unit_test(keys_differ_by_text_and_by_job),
		cmocka_unit_test(what_is_sealed_opens_with_its_key_alone),
		cmocka_unit_test(a_verdict_is_read_as_it_was_written),
		cmocka_unit_test(a_report_is_read_as_it_was_written),
	};

	return cmocka_run_group_tests_name("bootstrap_wire", tests, NULL, NULL);
}
