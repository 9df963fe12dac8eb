//! What all pages have in common: the document around the body, its style, and escaping of text.

/// Text for use between tags and in attributes, of HTML and of SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "
:root{color-scheme:light dark;--line:#d0d0d0;--soft:#f3f3f3;--mark:#a3282d;--chosen:#fde9c8;--note:#555}
@media(prefers-color-scheme:dark){:root{--line:#444;--soft:#222;--mark:#ff8a80;--chosen:#54431f;--note:#aaa}}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1rem}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.name{overflow-wrap:anywhere;font-family:ui-monospace,monospace}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid}
tr:nth-child(even){background:var(--soft)}.wide{overflow-x:auto}.finding{color:var(--mark)}
.wide>svg{max-width:100%;height:auto;background:#fafafa;color:#000}";

/// A whole page: nothing is loaded, and it works without a network. `title` and `heading` are text, `body` is HTML.
pub(crate) fn page(title: &str, heading: &str, body: &str) -> String {
    let (title, heading) = (escape(title), escape(heading));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1 id=\"title\">{heading}</h1>\n{body}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless() {
        let html = page("a <b>", "\"&\"", "<p>body</p>\n");
        assert!(html.contains("<title>a &lt;b&gt;</title>") && html.contains("&quot;&amp;&quot;</h1>"));
        assert!(html.contains("\n<p>body</p>\n</body>"));
    }
}
