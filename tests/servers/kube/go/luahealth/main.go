// Runs an Argo CD health script: {"script", "obj", "openLibs"} as JSON on stdin, what the script
// returned as {"status", "message"} on stdout.
//
// The sandbox is Argo CD's: without openLibs only the base, package and table libraries are there, a
// script has one second, and a status that Argo CD does not know becomes Unknown.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
)

const patience = time.Second

var known = map[string]bool{
	"Healthy": true, "Progressing": true, "Degraded": true, "Suspended": true, "Missing": true, "Unknown": true,
}

var libraries = []struct {
	name string
	open lua.LGFunction
}{
	{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable},
}

type question struct {
	Script   string         `json:"script"`
	Obj      map[string]any `json:"obj"`
	OpenLibs bool           `json:"openLibs"`
}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch typed := value.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		table := state.CreateTable(len(typed), 0)
		for _, item := range typed {
			table.Append(toLua(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(typed))
		for key, item := range typed {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

// text is a field of the returned table; absent is empty, and any other type is an error as in Argo CD,
// which decodes the table into two strings.
func text(table *lua.LTable, field string) (string, error) {
	switch value := table.RawGetString(field).(type) {
	case *lua.LNilType:
		return "", nil
	case lua.LString:
		return string(value), nil
	default:
		return "", fmt.Errorf("%s is a %s, not a string", field, value.Type())
	}
}

func run(asked question) (health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: !asked.OpenLibs})
	defer state.Close()
	if !asked.OpenLibs {
		for _, library := range libraries { // in this order: the others register in the first
			state.Push(state.NewFunction(library.open))
			state.Push(lua.LString(library.name))
			state.Call(1, 0)
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", toLua(state, asked.Obj))
	if err := state.DoString(asked.Script); err != nil {
		return health{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return health{}, fmt.Errorf("the script returned a %s, not a table", state.Get(-1).Type())
	}
	status, err := text(table, "status")
	if err != nil {
		return health{}, err
	}
	message, err := text(table, "message")
	if err != nil {
		return health{}, err
	}
	if !known[status] {
		return health{Status: "Unknown", Message: "Lua returned an invalid health status"}, nil
	}
	return health{Status: status, Message: message}, nil
}

func main() {
	var asked question
	err := json.NewDecoder(os.Stdin).Decode(&asked)
	if err == nil {
		var found health
		if found, err = run(asked); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
