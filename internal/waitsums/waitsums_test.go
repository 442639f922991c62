package waitsums

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheSumsOfAllConnectorsAddUp(t *testing.T) {
	all, any := All()
	assert.Empty(t, all)
	assert.False(t, any)

	k := Key{"r", 1, "slow"}
	Publish("a", map[Key]Sum{k: {3, 0}, {"r", 2, "slow"}: {0, 3}})
	Publish("b", map[Key]Sum{k: {4, 5}})
	all, any = All()
	assert.Equal(t, map[Key]Sum{k: {7, 5}, {"r", 2, "slow"}: {0, 3}}, all)
	assert.True(t, any)

	Publish("b", map[Key]Sum{k: {6, 5}})
	Withdraw("a")
	all, _ = All()
	assert.Equal(t, map[Key]Sum{k: {6, 5}}, all)
	Withdraw("b")
	_, any = All()
	assert.False(t, any)
}
