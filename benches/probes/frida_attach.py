"""Frida's Interceptor, with a handler in C, on one function of the program that is given. Prints the line that ticks.h describes."""

import subprocess
import sys

import frida

SCRIPT = """
const its = (name, result, args) => new NativeFunction(Process.mainModule.getExportByName(name), result, args);
const now = its('now', 'double', []), calls = its('calls_of_probed', 'double', ['int']);
const begin = its('begin_calling', 'void', []), end = its('end_calling', 'void', []);
const probed = Process.mainModule.getExportByName('probed');
const handler = new CModule('#include <gum/guminterceptor.h>\\nvoid onEnter(GumInvocationContext *context) {}');
let probe;
const on = () => { probe = Interceptor.attach(probed, {onEnter: handler.onEnter}); Interceptor.flush(); };
const off = () => { probe.detach(); Interceptor.flush(); };
const median = values => values.sort((a, b) => a - b)[values.length >> 1];
const times = (count, what) => Array.from({length: count}, what);

function switched(rounds) {
    const up = [], down = [];
    for (let i = 0; i < rounds; i++) {
        const a = now(); on();
        const b = now(); off();
        up.push(b - a); down.push(now() - b);
    }
    // What the clock itself takes from a script.
    const clock = median(times(rounds, () => -now() + now()));
    return [median(up) - clock, median(down) - clock];
}

rpc.exports.measure = () => {
    const base = median(times(301, () => calls(1000)));
    on();
    const hit = median(times(301, () => calls(1000))) - base;
    off();
    const [up, down] = switched(300);
    begin();
    const [contended] = switched(300);
    end();
    return [up, down, contended, hit];
};
"""

target = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE)
session = frida.attach(target.pid)
script = session.create_script(SCRIPT)
script.load()
figures = script.exports_sync.measure()
session.detach()
target.stdin.close()
target.wait()
print(f"Frida {frida.__version__}, a handler in C", *(f"{figure:.1f}" for figure in figures), sep="\t")
