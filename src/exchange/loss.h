/*
 * Word of losses. A rank that loses another ends all its steps, and so does one that
 * its application tells to, for the same reason: to those who wait for it, it has not
 * refused anything. So it tells them first whom it has lost, and they take that for
 * their own loss: survivors whose step fails for a death get PEER_LOST that names the
 * dead, whoever of them sees it first.
 */
#ifndef EXCHANGE_LOSS_H
#define EXCHANGE_LOSS_H

#include "exchange/exchange.h"

/* Tells all members that this rank has lost member `lost`, before any signal that
 * comes of it; `breaks`: and that it takes part in nothing any more. */
void loss_tell(struct shunt_exchange *exchange, int32_t lost, bool breaks);

/* Tells of a member of the view that is dead, if one is: this rank gives up what
 * others may wait for. */
void loss_tell_dead(struct shunt_exchange *exchange, const struct view *view);

/* True if `rank` says that it takes part in nothing any more. */
bool loss_breaks(const struct shunt_exchange *exchange, int32_t rank);

/* If `rank` goes no further in the step for a loss that it tells of, the step fails
 * by that loss, and this rank passes the word on. False if it does not. */
bool loss_explains(
	struct shunt_exchange *exchange, struct step *step, int32_t rank);

/* The thread's error is PEER_LOST, of a wait in the step: those among the lost who
 * are not dead, and have only ended for a loss, give place to that one. */
void loss_name(struct shunt_exchange *exchange, const struct step *step);

#endif
