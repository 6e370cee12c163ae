/*
 * Where the experts' rows lie on their way home. The experts' rank has them in
 * one of three places:
 *
 *	results   in its window: expert_rows, or copied there
 *	y         the caller's, if peers can reach it: the note says where
 *	travel    in its window, made of either of the two: summed over the TP
 *	          group, or quantized, or both; with sums by host MoE rows are
 *	          not quantized, as their sums are
 *
 * and the tokens' ranks read them there.
 */
#ifndef COMBINE_ROWS_H
#define COMBINE_ROWS_H

#include "exchange/exchange.h"

/* True if the rows of rank `rank` of the view are quantized; and if they are read in
 * travel. */
bool rows_are_packed(const struct shunt_exchange *exchange,
	const struct view *view, int32_t rank);
bool rows_travel(const struct shunt_exchange *exchange, const struct view *view,
	int32_t rank);

/* Fills the note of a combine whose rows are not known yet. */
void rows_begin(struct shunt_exchange *exchange, struct step *step);

/* Takes in all rows, as the arguments give them: leaves y where it is if peers
 * can reach it and says so in the note, else puts it into the window. */
void rows_take(struct shunt_exchange *exchange, struct step *step);

/* Takes in the rows of one local expert; y is its first row, NULL if they lie
 * in expert_rows. */
void rows_feed(struct shunt_exchange *exchange, struct step *step,
	int64_t local, const void *y, int64_t y_bytes);

/* Where this rank's rows lie once they are taken in: results or the caller's y;
 * and on their way home, where that is something else. */
struct row_place rows_results(
	const struct shunt_exchange *exchange, const struct step *step);
struct row_place rows_place(
	const struct shunt_exchange *exchange, const struct step *step);

/* With TP, after reach_locate() for the own TP group: sums the rows of the own
 * EP group over the TP ranks. */
void rows_reduce(struct shunt_exchange *exchange, struct step *step);

#endif
