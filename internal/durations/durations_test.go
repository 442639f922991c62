package durations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
)

type inner struct {
	Age  time.Duration `mapstructure:"age"`
	Size int           `mapstructure:"size"`
}

type squashed struct {
	Wait time.Duration `mapstructure:"wait"`
}

type outer struct {
	squashed `mapstructure:",squash"`
	Every    time.Duration                  `mapstructure:"every"`
	Deep     inner                          `mapstructure:"deep"`
	Far      *inner                         `mapstructure:"far"`
	Maybe    configoptional.Optional[inner] `mapstructure:"maybe"`
	List     []inner                        `mapstructure:"list"`
	Name     string                         `mapstructure:"name"`
}

func TestCheck(t *testing.T) {
	check := func(want string, raw map[string]any) {
		t.Helper()
		err := Check(confmap.NewFromStringMap(raw), &outer{})
		if want == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, want)
	}
	check("", nil)
	check("", map[string]any{"every": "10s", "name": 10, "deep": map[string]any{"size": 10}, "unknown": 10})
	check("", map[string]any{"every": 0, "wait": "0"})
	check("every: 10: a duration needs a unit, as 10s or 10ms", map[string]any{"every": 10})
	check("every: 1.5: a duration needs a unit, as 1.5s or 1.5ms", map[string]any{"every": 1.5})
	check("every: 10: a duration needs a unit, as 10s or 10ms", map[string]any{"every": " 10"})
	check("wait: 3: a duration needs a unit, as 3s or 3ms", map[string]any{"wait": 3})
	check("deep::age: 3: a duration needs a unit, as 3s or 3ms", map[string]any{"deep": map[string]any{"age": 3}})
	check("far::age: 3: a duration needs a unit, as 3s or 3ms", map[string]any{"far": map[string]any{"age": 3}})
	check("maybe::age: 3: a duration needs a unit, as 3s or 3ms", map[string]any{"maybe": map[string]any{"age": 3}})
	check("list[1]::age: 3: a duration needs a unit, as 3s or 3ms",
		map[string]any{"list": []any{map[string]any{"age": "3s"}, map[string]any{"age": 3}}})
	check("", map[string]any{"deep": "no map", "list": 7}) // unmarshalling says so
}
