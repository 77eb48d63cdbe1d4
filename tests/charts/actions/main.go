// Runs a resource action of Argo CD: {"script", "object"} as JSON on stdin, what the script returned as JSON on stdout.
// As in Argo CD the libraries package, base, table and a safe os are open, and a script has one second.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

type request struct {
	Script string         `json:"script"`
	Object map[string]any `json:"object"`
}

func main() {
	var asked request
	err := json.NewDecoder(os.Stdin).Decode(&asked)
	if err == nil {
		var result any
		if result, err = run(asked); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(asked request) (any, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	deadline, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(deadline)
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.OsLibName, openSafeOs},
	} {
		call := lua.P{Fn: state.NewFunction(library.open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", toLua(state, asked.Object))
	if err := state.DoString(asked.Script); err != nil {
		return nil, err
	}
	return fromLua(state.Get(-1)), nil
}

// openSafeOs gives the two functions of os that Argo CD gives.
func openSafeOs(state *lua.LState) int {
	state.Push(state.RegisterModule(lua.OsLibName, map[string]lua.LGFunction{
		"time": func(state *lua.LState) int {
			state.Push(lua.LNumber(time.Now().Unix()))
			return 1
		},
		"date": func(state *lua.LState) int {
			format := state.OptString(1, "%c")
			now := time.Now()
			if strings.HasPrefix(format, "!") {
				now, format = now.UTC(), format[1:]
			}
			pairs := strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%X", "15:04:05")
			state.Push(lua.LString(now.Format(pairs.Replace(format))))
			return 1
		},
	}))
	return 1
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch it := value.(type) {
	case bool:
		return lua.LBool(it)
	case float64:
		return lua.LNumber(it)
	case string:
		return lua.LString(it)
	case []any:
		table := state.NewTable()
		for _, element := range it {
			table.Append(toLua(state, element))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, element := range it {
			table.RawSetString(key, toLua(state, element))
		}
		return table
	}
	return lua.LNil
}

func fromLua(value lua.LValue) any {
	switch it := value.(type) {
	case lua.LBool:
		return bool(it)
	case lua.LNumber:
		return float64(it)
	case lua.LString:
		return string(it)
	case *lua.LTable:
		if count := it.MaxN(); count > 0 {
			list := make([]any, 0, count)
			for index := 1; index <= count; index++ {
				list = append(list, fromLua(it.RawGetInt(index)))
			}
			return list
		}
		object := map[string]any{}
		it.ForEach(func(key, element lua.LValue) { object[key.String()] = fromLua(element) })
		return object
	}
	return nil
}
