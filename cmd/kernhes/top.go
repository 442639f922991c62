package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"
)

const topText = `Shows the live page in a terminal: what is wrong, and the ranks of each run side by side.
Keys: up and down choose a run, q ends. Without a terminal, or with --once, it prints the page once.`

// top shows what GET /live says, again and again.
func top(args []string, out io.Writer) error {
	f := flags("top", "[FLAGS]", topText)
	endpoint := endpointFlag(f, "http://127.0.0.1:8988", "control_endpoint of the receiver kernhes", "url")
	every := f.Duration("every", 2*time.Second, "time between two requests for the page")
	once := f.Bool("once", false, "print it once")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected %q: %w", f.Arg(0), errUsage)
	case *every < 100*time.Millisecond:
		return fmt.Errorf("--every %v: must be 100ms or more: %w", *every, errUsage)
	}
	file, isFile := out.(*os.File)
	if *once || !isFile || !term.IsTerminal(int(file.Fd())) {
		v, err := fetchLive(*endpoint)
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, drawTop(v, 0, 120, 0, false))
		return err
	}
	m := &topModel{endpoint: *endpoint, every: *every, width: 120}
	if _, err := tea.NewProgram(m, tea.WithOutput(file)).Run(); err != nil {
		return err
	}
	return nil
}

// fetchLive asks for what the live page shows.
func fetchLive(endpoint string) (v liveView, err error) {
	body, err := ask(http.MethodGet, endpoint+"/live", "", 10*time.Second)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%s/live: %w", endpoint, err)
	}
	return v, nil
}

// A topModel is what the terminal shows.
type topModel struct {
	endpoint      string
	every         time.Duration
	view          liveView
	err           error // of the last request
	selected      int   // run
	width, height int
}

// A fetched is an answer of the collector.
type fetched struct {
	view liveView
	err  error
}

func (m *topModel) fetch() tea.Msg {
	v, err := fetchLive(m.endpoint)
	return fetched{v, err}
}

// Init asks for the first page.
func (m *topModel) Init() tea.Cmd { return m.fetch }

// Update takes a key, a size or an answer.
func (m *topModel) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch e := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = e.Width, e.Height
	case tea.KeyPressMsg:
		switch e.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "up", "k":
			m.selected = max(0, m.selected-1)
		case "down", "j":
			m.selected = max(0, min(len(m.view.Runs)-1, m.selected+1))
		}
	case fetched:
		if m.err = e.err; e.err == nil {
			m.view = e.view
			m.selected = max(0, min(m.selected, len(m.view.Runs)-1))
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return m.fetch() })
	}
	return m, nil
}

// View draws the page into the size of the terminal.
func (m *topModel) View() tea.View {
	text := drawTop(m.view, m.selected, m.width, m.height, true)
	if m.err != nil {
		text = "no answer: " + m.err.Error() + "\n" + text
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
