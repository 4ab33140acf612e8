/*
 * Health record: the fields, then VALID, then FAILED; one writer; late lanes add to a mask.
 *
 * What is modelled
 *   LANES lanes of one rank give up, each waiting for another rank. One wins the claim word by
 *   compare-and-swap, writes the fields of the record, then VALID, then FAILED. Every lane, the
 *   winner too, ORs the rank it missed into a mask before it goes on; the others are done then. A
 *   reader outside the process looks at any moment, with no other synchronisation: at VALID, then
 *   at the fields; another one at FAILED, then at VALID. With PROVISIONAL, the first lane has
 *   written a provisional record after a second of waiting: into a slot of its own with its own
 *   VALID word. The reader takes the final record if there is one. The program order of the stores
 *   is the memory order here; see relacy_flags.cpp for the orders.
 *
 * Property
 *   A reader that sees VALID sees a whole record, all fields from one lane, with that lane's rank
 *   in the mask. A reader that sees FAILED finds VALID set. In the end the record is there, whole,
 *   and the mask holds the missing rank of every lane.
 *
 * Rule shown (bounded waits and the health block)
 *   On expiry one lane wins by compare-and-swap; it writes the record, then VALID, then FAILED;
 *   late lanes OR a mask of missing ranks.
 *
 * Switches                 fault planted                                               must
 *   LANES=2|3              none: size of the model                                     hold
 *   VALID_FIRST            VALID before the fields                                     violate
 *   FAILED_FIRST           FAILED before the record                                    violate
 *   NO_CLAIM               no compare-and-swap: every lane writes the record           violate
 *   PLAIN_CLAIM            the claim is a load and a store                             violate
 *   PLAIN_MASK             the mask is loaded and stored: a bit is lost                violate
 *   PROVISIONAL            none: a provisional record in its own slot                  hold
 *   PROVISIONAL ONE_SLOT   the final record overwrites the provisional one             violate
 */

#ifndef LANES
#define LANES 3
#endif

#define FIELDS 3
#define FINAL 0
#ifdef ONE_SLOT
#define EARLY FINAL
#else
#define EARLY 1
#endif

#define UNCLAIMED 0
#define NAME(lane) ((lane) + 1)         /* what a lane writes into claim and fields */
#define BIT(lane) (1 << (lane))
#define ALL_BITS ((1 << LANES) - 1)

/* Device memory. */
byte claim = UNCLAIMED;
bool failed;

/* Host memory, shared with the reader. */
byte field[2 * FIELDS];
bool valid[2];
byte missing_mask;

/* For the assertions only. */
byte lanes_done;

inline claim_record() {
#if defined(NO_CLAIM)
    won = true
#elif defined(PLAIN_CLAIM)
    won = (claim == UNCLAIMED);
    if
    :: won -> claim = NAME(lane)
    :: !won
    fi
#else
    atomic {
        won = (claim == UNCLAIMED);
        if
        :: won -> claim = NAME(lane)
        :: !won
        fi
    }
#endif
}

inline add_missing_rank() {
#ifdef PLAIN_MASK
    mask = missing_mask;
    missing_mask = mask | BIT(lane)
#else
    missing_mask = missing_mask | BIT(lane)
#endif
}

inline write_fields(slot) {
    field[(slot) * FIELDS + 0] = NAME(lane);
    field[(slot) * FIELDS + 1] = NAME(lane);
    field[(slot) * FIELDS + 2] = NAME(lane)
}

inline write_record(slot) {
#ifdef VALID_FIRST
    valid[slot] = true;
    write_fields(slot)
#else
    write_fields(slot);
    valid[slot] = true
#endif
}

proctype Lane(byte lane) {
    bool won;
    byte mask;

#ifdef PROVISIONAL
    if
    :: lane == 0 -> write_record(EARLY)
    :: lane != 0
    fi;
#endif
    add_missing_rank();
    claim_record();
    if
    :: won ->
#ifdef FAILED_FIRST
        failed = true;
#endif
        write_record(FINAL);
        failed = true
    :: !won
    fi;
    lanes_done++
}

inline read_fields(slot) {
    first = field[(slot) * FIELDS + 0];
    assert(first != 0);
    assert(field[(slot) * FIELDS + 1] == first);
    assert(field[(slot) * FIELDS + 2] == first)
}

proctype RecordReader() {
    byte first;

    if
    :: valid[FINAL] ->
        read_fields(FINAL);
#ifndef ONE_SLOT
        assert(missing_mask & BIT(first - 1))
#endif
#ifdef PROVISIONAL
    :: !valid[FINAL] && valid[EARLY] -> read_fields(EARLY)
#endif
    fi
}

proctype FailedReader() {
    failed;
    assert(valid[FINAL])
}

init {
    byte lane, first;
    atomic {
        for (lane : 0 .. LANES - 1) {
            run Lane(lane)
        }
        run RecordReader();
        run FailedReader()
    }
    lanes_done == LANES;
    assert(valid[FINAL] && failed);
    read_fields(FINAL);
    assert(missing_mask == ALL_BITS)
}
