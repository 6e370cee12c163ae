/*
 * Tokens that are summed before all ranks have announced all of their rows:
 * those of a combine with `feed`. Of each rank either the RESULTS line says that
 * all of its rows can be read, or a done word that those of one expert can. A
 * token counts the rows that it still waits for; it is summed when the last one
 * is there, into the same bits as ever.
 *
 *	tokens   by unit, who has a row there       missing  by token
 *	awaited  by rank, experts that are not here ready    to be summed, in order
 *
 * A look costs a word for each awaited expert and a line for each rank that has
 * one. What comes early is nothing until RESULTS of all ranks is good: a step
 * that fails has written some of `out`.
 *
 * Not where rows are summed over a TP group first: those come all at once.
 */
#ifndef COMBINE_EARLY_H
#define COMBINE_EARLY_H

#include "exchange/exchange.h"

/* The combine begins; step->early.is_on says if anything can come early. */
void early_begin(struct shunt_exchange *exchange, struct step *step);

/* Sums tokens whose rows have come: all of them once this rank has fed all, before
 * that as many as take no long time. The step waits for RESULTS. Never waits. */
void early_look(struct shunt_exchange *exchange, struct step *step);

/* All rows can be read: sums the tokens that are left. */
void early_finish(struct shunt_exchange *exchange, struct step *step);

#endif
