package share

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A newcomer displaces the newest of those that have most, if they have more than it would have.
func TestGivesWay(t *testing.T) {
	in := func(group, process string) Peer { return Peer{Group: group, Process: process, Vouched: true} }
	check := func(what string, newcomer Peer, want int, peers ...Peer) {
		t.Helper()
		var holders []Holder
		for i, p := range peers {
			holders = append(holders, Holder{p, uint64(i)})
		}
		got, ok := GivesWay(newcomer, holders)
		if !ok {
			got = -1
		}
		assert.Equal(t, want, got, what)
	}
	good, bad := in("a", "1"), in("b", "1")
	check("nobody is there", good, -1)
	check("one that holds all", good, 2, bad, bad, bad)
	check("one that holds one", good, -1, bad)
	check("fewer than it would have", good, 4, good, bad, bad, bad, bad)
	check("the largest process of the group", good, 3, in("b", "2"), bad, bad, bad)
	check("many processes of one container", good, 3, in("b", "1"), in("b", "2"), in("b", "3"), in("b", "4"))
	check("those that hold most do not grow", bad, -1, good, bad, bad, bad)
	check("another process of the largest group", in("b", "2"), 3, good, bad, bad, bad)
	check("one that has a place, and as many as another would have", good, -1, good, bad, bad)
	check("each has one", good, -1, in("b", "1"), in("c", "1"), in("d", "1"))
}

func TestSame(t *testing.T) {
	one, two := Peer{Group: "user 7", Process: "process 1 of user 7", Vouched: true}, Peer{Group: "user 7", Process: "process 2 of user 7", Vouched: true}
	assert.True(t, one.Same(one))
	assert.False(t, one.Same(two))
	assert.True(t, one.Same(Peer{Group: "container x", Process: one.Process, Vouched: true, Contained: true}), "its container was not known at first")
	assert.False(t, one.Same(Peer{Group: "10.0.0.7"}))
	assert.True(t, Peer{Group: "10.0.0.7"}.Same(Peer{Group: "10.0.0.8"}), "addresses change; the session's number is a secret")
}

func TestUser(t *testing.T) {
	assert.Equal(t, "container x", Peer{Group: "container x", Process: "process 1 of user 7", Contained: true}.User())
	assert.Equal(t, "process 1 of user 7", Peer{Group: "user 7", Process: "process 1 of user 7"}.User())
	assert.Equal(t, "10.0.0.7", Peer{Group: "10.0.0.7"}.User())
}
