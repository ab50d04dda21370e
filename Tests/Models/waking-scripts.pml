/*
 * The scripts of waking.pml, which includes this file after its variables: `tick`, `claim`, `hold`, `acquirePermit` and
 * `releasePermit`.
 */

inline wake() {
    if
    :: tokens < TOKENS -> tokens++
    :: else
    fi
}

inline hold(j, time) {
    if
    :: time != NEVER -> isHeld[HOST(j)] = true; next[HOST(j)] = time
    :: else
    fi;
    if
    :: state[j] != READY && state[j] != NEW ->
        owner[j] = NOWORKER;
#ifndef HOLD_COUNTS
        used[j]--;
#endif
        timer[j] = 0
    :: else
    fi;
    state[j] = HELD;
    turn[j] = false
}

inline makeReady(j, ofTurn) {
    state[j] = READY;
    timer[j] = 0;
    turn[j] = ofTurn;
    made++
}

/* One job at the turn of a host; more, turn after turn, if the host is given up. */
inline tickHost(h) {
    if
    :: isHeld[h] && next[h] == 0 && made < BOUND ->
        i = 0;
        do
        :: i < JOBS && state[i] == HELD && HOST(i) == h ->
#ifdef NO_TURN
            makeReady(i, false);
#else
            makeReady(i, true);
#endif
            break
        :: i < JOBS && (state[i] != HELD || HOST(i) != h) -> i++
        :: else -> break
        od;
        if
        :: HASHELD(h) -> next[h] = (openings[h] < PATIENCE -> 1 : 0)
        :: else -> isHeld[h] = false; next[h] = 0
        fi;
        i = 0
    :: else
    fi
}

/* Makes at most BOUND jobs ready; the others stay due. */
inline tick() {
    made = 0;
    tickHost(0);
    tickHost(1);
    i = 0;
    do
    :: i < JOBS ->
        if
        :: state[i] == DELAYED && timer[i] == 0 && made < BOUND -> makeReady(i, false)
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* Moves at most BOUND jobs, with those of `tick`, and then leaves the rest of the ready list. */
inline claimOne(w, j) {
    if
    :: state[j] == READY && WAITS(j) && made + moved < BOUND -> hold(j, NEVER); moved++
    :: state[j] == READY && WAITS(j) && made + moved >= BOUND -> isLeft = true
    :: ISREADY(j) && FREE(w) && !isLeft ->
        state[j] = CLAIMED;
        turn[j] = false;
        owner[j] = w;
        used[j]++;
        got++
    :: else
    fi
}

/*
 * A worker that is full now leaves the rest to another, also if `tick` has reached its bound and left due jobs. One
 * that got nothing sleeps for its idle interval. One that got the last job deletes the tokens.
 */
inline finishClaim(w) {
#ifndef NO_CHAIN
    if
    :: (ANYREADY || made >= BOUND) && !FREE(w) -> wake()
    :: else
    fi;
#endif
    if
    :: ISEMPTY && got > 0 -> tokens = 0
    :: else
    fi;
    sleep[w] = IDLE;
    made = 0; moved = 0
}

/* `releasePermit` makes the turn of a host come if nothing but the slot was missing. */
inline advance(h) {
    if
    :: isHeld[h] && next[h] > 0 && rate[h] == 0 ->
        next[h] = 0;
#ifndef NO_TOKEN_OF_RELEASE
        wake()
#endif
    :: else
    fi
}

inline acquire(w, j, h) {
    if
    :: open[h] > 0 && openings[h] >= PATIENCE -> state[j] = UNREACHABLE
    :: open[h] > 0 && openings[h] < PATIENCE -> state[j] = REFUSED; timer[j] = open[h]
#ifndef NO_RATE
    :: open[h] == 0 && rate[h] > 0 -> state[j] = REFUSED; timer[j] = rate[h]
#endif
    :: else ->
        if
#ifndef NO_CONCURRENCY
#ifndef NO_PROBE
        :: h == 0 && FETCHES(h) + orphans[h] >= (openings[h] > 0 -> 1 : CONCURRENCY) ->
#else
        :: h == 0 && FETCHES(h) + orphans[h] >= CONCURRENCY ->
#endif
            state[j] = REFUSED;
            timer[j] = 1
#endif
        :: else ->
            assert(h == 1 || open[h] == 0 && FETCHES(h) < (openings[h] > 0 -> 1 : CONCURRENCY));
#ifdef RATE
            assert(h == 1 || since[h] >= RATE);
            rate[h] = (h == 0 -> RATE : 0);
#endif
            since[h] = 0;
            state[j] = FETCHING
        fi
    fi
}
