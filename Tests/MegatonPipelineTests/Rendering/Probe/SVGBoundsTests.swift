import Foundation
import Testing

@testable import MegatonPipeline
@testable import MegatonRendering

/// Limits on an SVG's content: librsvg cannot be interrupted.
struct SVGBoundsTests {
    private static func validationError(_ body: String, start: String = "") -> String? {
        let svg = "\(start)<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 100\">\(body)</svg>"
        return Data(svg.utf8).withUnsafeBytes { SVGBounds.validationError($0) }
    }

    @Test(arguments: [
        "<rect width='10' height='10' fill='#fff'/>",
        "<g opacity='.5'><path d='M0 0L10 10z' stroke-dasharray='2 1'/></g>",
        "<defs><linearGradient id='a'><stop offset='0'/></linearGradient></defs><rect fill='url(#a)'/>",
        "<style>.a { fill: red; opacity: 0.5 }</style><circle class='a' r='3'/><!-- <filter> -->",
        "<symbol id='s'><path d='M1 1'/></symbol><use href='#s'/><use xlink:href='#s' x='3'/>",
        "<style>.a{fill-opacity:.5}</style>\(String(repeating: "<g>", count: 20))<path class='a' d='M0 0'/>",
        "<style>.a{opacity:.5}</style>\(String(repeating: "<g>", count: 20))<path class='a' d='M0 0'/>",
        "<style>.a{font-family:&#x27;Inter&#x27;}</style><text class='a'>a</text>",
        "<text>a &amp; b</text>",
        "<image xlink:href='file:///a.png' width='3'/>",
        "<style><![CDATA[ .b > .c { fill: blue } ]]></style><g filter='none'/>",
        "<defs><marker id='m'><path d='M0 0'/></marker></defs><path marker-end='url(#m)' d='M0 0L9 9'/>",
    ])
    func ordinaryDrawingsAreRendered(_ body: String) {
        #expect(Self.validationError(body) == nil)
        #expect(Self.validationError(body, start: "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE svg>") == nil)
    }

    private static func levels(_ count: Int, _ line: (Int) -> String) -> String {
        (1...count).map(line).joined()
    }

    @Test(arguments: [
        ("<filter id='f'><feTurbulence numOctaves='9999'/></filter><rect filter='url(#f)'/>", "filters"),
        ("<svg:filter id='f'/>", "filters"), ("<g filter='blur(9999px)'/>", "filters"),
        ("<g style='fil&#116;er:url(#f)'/>", "filters"), ("<style>g { filter: url(#f) }</style>", "filters"),
        ("<style>g { f\\69lter: url(#f) }</style>", "escapes"), ("<style>@import url(a.css);</style>", "imports"),
        ("<pattern id='p' width='1e9' height='1e9'/>", "patterns"),
        ("<image href=' Data:image/png;base64,AA'/>", "images"),
        ("<style>rect { fill: url(#p) }</style>", "style sheet"), ("<xi:include href='/etc/passwd'/>", "includes"),
        ("<path d='M0 0H1000000000' stroke-dasharray='0.001'/>", "dashes"),
        ("<g id='a'><use href='#a'/></g>", "itself"),
        ("<g mask='url(#m)'/><mask id='m'><g mask='url(#m)'/></mask>", "itself"),
        (
            levels(40) { "<g id='g\($0)'><use href='#g\($0 - 1)'/><use href='#g\($0 - 1)'/></g>" } + "<g id='g0'/>",
            "elements"
        ),
        (String(repeating: "<g>", count: 500), "nests"),
        (String(repeating: "<g opacity='.5'>", count: 50), "drawn apart"),
        // Fault: neither a style sheet nor a comment in a style was seen.
        ("<style>g{opacity:.5}</style>" + String(repeating: "<g>", count: 50), "draw apart"),
        ("<style>g{opa<!-- -->city:.5}</style>" + String(repeating: "<g>", count: 50), "draw apart"),
        ("<style>g{<![CDATA[opacity]]>:.5}</style>" + String(repeating: "<g>", count: 50), "draw apart"),
        ("<style>g{&#111;pacity:.5}</style>" + String(repeating: "<g>", count: 50), "draw apart"),
        ("<style>g{fil<a>x</a>ter:blur(9px)}</style>", "elements in a style"),
        (String(repeating: "<g style='opacity/**/:.5'>", count: 50), "drawn apart"),
        (String(repeating: "<g/>", count: 150_000), "elements"), ("<rect x=", "attribute"), ("<rect", "tag"),
        ("<!-- ", "markup"),
        ("<rect fill='&lol9;'/>", "entity"),
        (
            "<marker id='m'>\(String(repeating: "<g/>", count: 5000))</marker><path marker='url(#m)' d='"
                + String(repeating: "1 ", count: 5000) + "'/>", "markers"
        ),
    ])
    func unboundedContentIsRefused(_ body: String, _ reason: String) {
        let validationError = Self.validationError(body)
        #expect(validationError?.contains(reason) == true, "\(validationError ?? "nothing")")
    }

    /// Fault: a path of 100 kB drawn by 100 references kept librsvg busy for more than 40 s.
    @Test func pathsAndTextsAreCountedEachTimeTheyAreDrawn() {
        let path = "<path id='p' d='M" + String(repeating: "1 1 ", count: 100_000) + "'/>"
        let pathUses = String(repeating: "<use href='#p'/>", count: 100)
        #expect(Self.validationError(path) == nil)
        #expect(Self.validationError(path + pathUses)?.contains("drawn too often") == true)
        let words = String(repeating: "ab ", count: 10)
        let text = "<text id='t'>" + String(repeating: "<tspan>\(words)</tspan>", count: 300) + "</text>"
        let textUses = String(repeating: "<use href='#t'/>", count: 100)
        #expect(Self.validationError(text) == nil)
        #expect(Self.validationError(text + textUses)?.contains("drawn too often") == true)
    }

    /// Fault: a text of 900 kB took librsvg 3.3 GB.
    @Test func aTextHasALongestLength() {
        let long = String(repeating: "ab ", count: 10_000)
        #expect(Self.validationError("<text>\(long)</text>")?.contains("too long") == true)
        #expect(Self.validationError("<text><![CDATA[\(long)]]></text>")?.contains("too long") == true)
        #expect(Self.validationError("<desc>\(long)</desc><text>a</text>") == nil)
        #expect(Self.validationError(String(repeating: "<text>a label of a map</text>", count: 5000)) == nil)
    }

    /// Fault: the targets of an element were looked up again for each reference, which took minutes.
    @Test(.timeLimit(.minutes(1))) func manyReferencesAreWalkedOnce() {
        let groups = Self.levels(40_000) { "<g id='g\($0)'/>" }
        let uses = Self.levels(40_000) { "<use href='#g\($0)'/>" }
        #expect(Self.validationError(groups + uses) == nil)
        let nested = String(repeating: "url(", count: 100_000)
        #expect(Self.validationError("<g fill='\(nested)'/>") == nil)
    }

    @Test(arguments: [
        "<!DOCTYPE svg [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]>", "<!DOCTYPE svg PUBLIC \">\" [ <!ENTITY a 'b'> ]>",
        "<?xml version='1.0' encoding='UTF-7'?>", "<?xml-stylesheet href='a.css'?>",
    ])
    func entitiesAndStylesheetsAreRefused(_ start: String) {
        #expect(Self.validationError("", start: start) != nil)
    }

    /// Markup with any byte changed is parsed to its end and no further.
    @Test func damagedMarkupIsWalkedToo() {
        let svg = Data(
            "<?xml version='1'?><svg a='&#65;'><!-- --><g id='a' style='x:url(#b)'/><![CDATA[ ]]></svg>".utf8
        )
        for place in svg.indices {
            for byte in Array("<>'\"&;=/!?- \0".utf8) {
                var changed = svg
                changed[place] = byte
                _ = changed.withUnsafeBytes { SVGBounds.validationError($0) }
                _ = changed.prefix(place).withUnsafeBytes { SVGBounds.validationError($0) }
            }
        }
    }

    @Test func aLibraryReadsNoneOfThem() {
        let svg = Data("<svg xmlns='http://www.w3.org/2000/svg'><filter id='f'/></svg>".utf8)
        #expect {
            try HeaderBounds.check(svg, .svg)
        } throws: { ($0 as? ImagePipeline.Error)?.code == .tooCostly }
    }
}
