// Package share decides which holder of a place loses it to a newcomer when all places are taken.
package share

// A Peer is who holds places. The zero Peer is unknown.
type Peer struct {
	Group   string // whose places are counted together: a container, a user of this host, or another host
	Process string // a process of the group; empty: not known
	Vouched bool   // the kernel says so, not the peer
	// Contained says that the group is a container.
	Contained bool
}

// Same reports whether two peers can be one process. Where the kernel vouches for neither, nothing is known against it.
func (p Peer) Same(other Peer) bool {
	return p.Vouched == other.Vouched && (!p.Vouched || p.Process == other.Process)
}

// User is who answers for the peer: its container, or the process where it runs in none that is known.
func (p Peer) User() string {
	if p.Process != "" && !p.Contained {
		return p.Process
	}
	return p.Group
}

// A Holder is a peer in a place.
type Holder struct {
	Peer
	Since uint64 // a number that grows from holder to holder
}

// most is by how many places a holder's group or process must exceed the newcomer's. With one less, the two would displace
// each other by turns.
const most = 2

// GivesWay returns which holder makes room for a newcomer: the newest of the largest process of the largest group, if that has more
// than the newcomer's group would have. Within the newcomer's own group the same holds of processes. False: nobody does.
func GivesWay(newcomer Peer, holders []Holder) (index int, ok bool) {
	groups, processes := map[string]int{}, map[Peer]int{}
	for _, h := range holders {
		groups[h.Group]++
		processes[h.Peer]++
	}
	largest := newcomer.Group
	for _, h := range holders {
		if groups[h.Group] > groups[largest] {
			largest = h.Group
		}
	}
	if groups[largest] >= groups[newcomer.Group]+most {
		return newest(holders, largest, processes), true
	}
	at := newest(holders, newcomer.Group, processes)
	if at >= 0 && processes[holders[at].Peer] >= processes[newcomer]+most {
		return at, true
	}
	return 0, false
}

// newest is the newest holder of the largest process of a group; below 0: the group has none.
func newest(holders []Holder, group string, processes map[Peer]int) int {
	at := -1
	for i, h := range holders {
		if h.Group != group {
			continue
		}
		if at < 0 || processes[h.Peer] > processes[holders[at].Peer] ||
			processes[h.Peer] == processes[holders[at].Peer] && h.Since > holders[at].Since {
			at = i
		}
	}
	return at
}
