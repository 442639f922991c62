package nccl

// MaxMembers bounds the devices of one process whose ranks are kept.
const MaxMembers = 64

// A World is the communicator of all ranks of the run, as far as it is known: among those that the process initialised
// the one with the most ranks, and the first of several. Communicators that were split, shrunk or grown from another are
// none. A later initialisation with more ranks replaces it, so one that is read early may be that of a subgroup.
type World struct {
	CommID uint64 // the same on all ranks, another with each start; 0: NCCL did not say
	Rank   int    // of the process in it, or of the first of its devices; -1: not known (ncclCommInitAll)
	Ranks  int
	Device int // CUDA device of that rank; -1: not known
	OK     bool
}

// A member is a rank of the world that this process has.
type member struct{ device, rank int }

type world struct {
	is      World
	members []member // the first is that of is
}

// add takes what an initialisation gave.
func (w *world) add(said *Said) {
	one := World{Rank: -1, Device: -1, OK: true}
	one.CommID, _ = said.Get(Comm)
	var ok bool
	if one.Ranks, ok = said.Int(Ranks); ok {
		if one.Rank, ok = said.Int(Rank); !ok || one.Rank >= one.Ranks {
			return
		}
	} else if one.Ranks, ok = said.Int(Devices); !ok {
		return
	}
	if one.Ranks == 0 {
		return
	}
	if d, ok := said.Int(Device); ok {
		one.Device = d
	}
	switch {
	case !w.is.OK || one.Ranks > w.is.Ranks:
		w.is, w.members = one, append(w.members[:0], member{one.Device, one.Rank})
	case one.Ranks == w.is.Ranks && one.CommID == w.is.CommID && len(w.members) < MaxMembers:
		w.members = append(w.members, member{one.Device, one.Rank})
	}
}

// World is the communicator of all ranks; not OK where no initialisation was heard.
func (f *Follower) World() World { return f.world.is }

// RankOf is the rank in the world of a CUDA device of this process: those of one process may be several ranks.
func (f *Follower) RankOf(device int) (rank int, ok bool) {
	for _, m := range f.world.members {
		if m.device == device && m.rank >= 0 {
			return m.rank, true
		}
	}
	return 0, false
}
