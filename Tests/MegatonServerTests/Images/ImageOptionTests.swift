import MegatonPipeline
import Testing

@testable import MegatonServer

/// Each option of image URLs, and the rendition that it becomes.
@Suite struct ImageOptionTests {
    /// Options and their effect on a rendition of 300 x 400 that covers its size.
    struct Accepted: Sendable, CustomTestStringConvertible {
        let options: String
        let change: @Sendable (inout Rendition) -> Void

        init(_ options: String, _ change: @escaping @Sendable (inout Rendition) -> Void = { _ in }) {
            self.options = options
            self.change = change
        }

        var testDescription: String { options }
    }

    private static let logo = Rendition.Watermark(.image("logo.png"), position: .center)

    private static func shifted(
        _ position: Rendition.Watermark.Position,
        _ x: Double,
        _ y: Double
    ) -> Rendition.Watermark {
        var watermark = Rendition.Watermark(.image("logo.png"), position: position)
        (watermark.x, watermark.y) = (x, y)
        return watermark
    }

    static let accepted: [Accepted] = [
        // Size.
        Accepted("resize:fit") { $0.fit = .inside },
        Accepted("rs:fit:100:200:1:1") { ($0.width, $0.height, $0.fit, $0.enlarge) = (100, 200, .contain, true) },
        Accepted("rs:auto") { $0.fit = .auto }, Accepted("rt:auto/h:0") { ($0.fit, $0.height) = (.inside, nil) },
        Accepted("rt:auto/g:fp:0.25:1") { ($0.fit, $0.focus) = (.auto, .init(x: 0.25, y: 1)) },
        Accepted("rs:force") { $0.fit = .fill }, Accepted("rs:fill-down"), Accepted("rs::200") { $0.width = 200 },
        Accepted("rs:fit:::0:1:ce:0:0") { $0.fit = .contain },
        Accepted("size:10:20") { ($0.width, $0.height) = (10, 20) },
        Accepted("s::20:t") { ($0.height, $0.enlarge) = (20, true) },
        Accepted("s:10:0") { ($0.width, $0.height, $0.fit) = (10, nil, .inside) }, Accepted("s:"),
        Accepted("resizing_type:force") { $0.fit = .fill }, Accepted("rt:fit") { $0.fit = .inside },
        Accepted("width:8192") { $0.width = 8192 }, Accepted("w:1") { $0.width = 1 },
        Accepted("height:8192") { $0.height = 8192 },
        Accepted("h:0/rt:fill") { ($0.height, $0.fit) = (nil, .inside) },
        Accepted("min-width:0/mw:0/min-height:0/mh:0"),
        Accepted("zoom:2") { ($0.width, $0.height) = (600, 800) },
        Accepted("z:0.5:0.5") { ($0.width, $0.height) = (150, 200) }, Accepted("dpr:2") { $0.dpr = 2 },
        // Products that are not exact: 440.00000000000006 and 459.99999999999994.
        Accepted("z:1.1") { ($0.width, $0.height) = (330, 440) },
        Accepted("z:1.15") { ($0.width, $0.height) = (345, 460) },
        Accepted("enlarge:true") { $0.enlarge = true }, Accepted("el:1/el:f"),
        Accepted("rt:fit/extend:1") { $0.fit = .contain }, Accepted("rt:fit/ex:t:ce") { $0.fit = .contain },
        Accepted("ex:0/extend_aspect_ratio:0/extend_ar:f/exar:false:ce"),
        // The part that is kept, and turns.
        Accepted("gravity:no") { $0.gravity = .north }, Accepted("g:so:0:0") { $0.gravity = .south },
        Accepted("g:ea:0.0") { $0.gravity = .east }, Accepted("g:we") { $0.gravity = .west },
        Accepted("g:noea") { $0.gravity = .northEast }, Accepted("g:nowe") { $0.gravity = .northWest },
        Accepted("g:soea") { $0.gravity = .southEast }, Accepted("g:sowe") { $0.gravity = .southWest },
        Accepted("g:ce:0.25:-0.125") { $0.focus = .init(x: 0.75, y: 0.375) },
        Accepted("g:no:-0.25:0") { $0.focus = .init(x: 0.25, y: 0) },
        Accepted("g:ea:0:0.75") { $0.focus = .init(x: 1, y: 1) }, Accepted("g:soea::") { $0.gravity = .southEast },
        Accepted("g:sm/g:ce"), Accepted("g:sm") { $0.gravity = .attention },
        Accepted("g:fp:0.25:1") { $0.focus = .init(x: 0.25, y: 1) },
        // Without cropping, it has no effect in imgproxy either.
        Accepted("rt:fit/g:no") { $0.fit = .inside }, Accepted("rt:force/g:fp:0:0") { $0.fit = .fill },
        Accepted("trim:10") { $0.trim = 10 }, Accepted("t:10.0::0:f") { $0.trim = 10 }, Accepted("t:10/t:"),
        Accepted("padding:10") { $0.padding = Rendition.Padding(10) },
        Accepted("pd:1:2") { $0.padding = .init(top: 1, right: 2, bottom: 1, left: 2) },
        Accepted("pd:1:2:3") { $0.padding = .init(top: 1, right: 2, bottom: 3, left: 2) },
        Accepted("pd::2::4") { $0.padding = .init(top: 0, right: 2, bottom: 0, left: 4) }, Accepted("pd:5/pd:0"),
        Accepted("pd:5/dpr:1.5") { ($0.padding, $0.dpr) = (Rendition.Padding(8), 1.5) },
        Accepted("auto_rotate:1/ar:true"), Accepted("rotate:90") { $0.rotate = .quarter },
        Accepted("rot:180") { $0.rotate = .half }, Accepted("rot:-90") { $0.rotate = .threeQuarters },
        Accepted("rot:450") { $0.rotate = .quarter }, Accepted("rot:90/rot:0"), Accepted("rot:-360"),
        Accepted("flip:1") { $0.flip = .horizontal }, Accepted("fl:0:1") { $0.flip = .vertical },
        Accepted("fl:1/fl::1") { $0.flip = .both }, Accepted("fl:1:1/fl:0:0"),
        // imgproxy's point is on the turned image.
        Accepted("rot:90/g:fp:0.25:0") { ($0.rotate, $0.focus) = (.quarter, .init(x: 0, y: 0.75)) },
        Accepted("rot:270/fl:1/g:fp:0.25:0") {
            ($0.rotate, $0.flip, $0.focus) = (.threeQuarters, .horizontal, .init(x: 1, y: 0.75))
        },
        // Colors and effects.
        Accepted("background:255:136:0") { $0.background = Color(red: 255, green: 136, blue: 0) },
        Accepted("bg:ff8800") { $0.background = Color(red: 255, green: 136, blue: 0) },
        Accepted("bg:F80") { $0.background = Color(red: 255, green: 136, blue: 0) }, Accepted("bg:000/bg:"),
        Accepted("bg:000/f:webp") { ($0.background, $0.format, $0.flatten) = (.black, .webp, true) },
        Accepted("bg:000/bg:/f:png") { $0.format = .png },
        Accepted("blur:2.5") { $0.blur = 2.5 }, Accepted("bl:2/bl:0"),
        Accepted("sharpen:0.7") { $0.sharpen = 0.7 }, Accepted("sh:1/sh:0"), Accepted("pixelate:0/pix:1"),
        Accepted("watermark:1") { $0.watermark = logo },
        Accepted("wm:0.5:soea:10:5:0.25") {
            $0.watermark = shifted(.southEast, 10, 5)
            $0.watermark?.opacity = 0.5
            $0.watermark?.scale = 0.25
        },
        Accepted("wm:1:ce:-20.5:0.1") { $0.watermark = shifted(.center, -20, 0.1) },
        Accepted("wm:1:no:0:7") { $0.watermark = shifted(.north, 0, 7) },
        Accepted("wm:1:we:7") { $0.watermark = shifted(.west, 7, 0) },
        Accepted("wm:1:re:5:0.5:0/dpr:2") { ($0.watermark, $0.dpr) = (shifted(.repeat, 10, 0.5), 2) },
        Accepted("wm:1:nowe/wm:0.5") {
            $0.watermark = .init(.image("logo.png"), position: .northWest, opacity: 0.5)
        },
        Accepted("wm:1/wm:0"),
        // The file.
        Accepted("strip_metadata:1/sm:t"), Accepted("keep_copyright:1") { $0.keepMetadata = .copyright },
        Accepted("kcr:1/kcr:0"), Accepted("strip_color_profile:0") { $0.profile = .keep },
        Accepted("scp:0/scp:1"), Accepted("enforce_thumbnail:0/eth:0"),
        Accepted("quality:55") { $0.quality = 55 }, Accepted("q:55/q:0"),
        Accepted("format_quality:jpeg:50:webp:60") { $0.quality = 50 },
        Accepted("fq:webp:60/f:webp") { ($0.quality, $0.format) = (60, .webp) },
        Accepted("fq:jpg:60/q:70") { $0.quality = 70 },
        Accepted("max_bytes:1000") { $0.maxBytes = 1000 }, Accepted("mb:1/mb:0"),
        Accepted("format:jpg/f:jpeg/ext:avif") { $0.format = .avif }, Accepted("f:gif") { $0.format = .gif },
        Accepted("ext:png") { $0.format = .png },
        // Without effect on pixels.
        Accepted("raw:0"), Accepted("cachebuster:abc"), Accepted("cb:"), Accepted("expires:1/exp:0"),
        Accepted("filename:a.jpg"), Accepted("fn:YS5qcGc:1"), Accepted("return_attachment:1/att:0"),
        Accepted("preset:sharp") { $0.sharpen = 0.7 }, Accepted("pr:sharp:soft") { ($0.sharpen, $0.blur) = (0.7, 3) },
    ]

    @Test(arguments: accepted) func anOptionChangesTheRendition(_ example: Accepted) throws {
        let settings = try ImageURLSettings.unsigned(["sharp=sh:0.7", "soft=bl:3"])
        let rendition = try settings.rendition("rs:fill:300:400/" + example.options)
        var expected = Rendition(width: 300, height: 400, fit: .cover)
        example.change(&expected)
        expected.name = rendition.name
        #expect(rendition == expected)
        #expect(rendition.validationError == nil)
    }

    /// Options, and words of the message.
    static let refused: [(String, String)] = [
        ("rs:best", "has the resizing type \"best\"; allowed are fit, fill, fill-down, force, auto"),
        ("rs:fit:a", "\"rs\" has the width \"a\"; allowed are whole numbers from 0 to 8192"),
        ("rs:fit:1:2:3:4:5:6:7:8", "has 9 arguments"), ("rs:fit:-1", "\"-1\""), ("w:8193", "\"8193\""),
        ("w:99999999999999999999999999", "allowed are whole numbers"), ("w:1.5", "\"1.5\""), ("w:", "the value \"\""),
        ("w:nan", "\"nan\""), ("w:0x10", "\"0x10\""), ("w:1:2", "has 2 arguments; allowed is 1"), ("h:１", "\"１\""),
        ("w: 1", "\" 1\""), ("min-width:10", "allowed is 0"), ("mh:1", "allowed is 0"), ("zoom:0", "from 0.01 to 100"),
        ("z:nan", "from 0.01 to 100"), ("z:inf", "from 0.01 to 100"), ("z:0x1p1", "from 0.01 to 100"),
        ("z:1e999", "from 0.01 to 100"), ("z:2:3", "is that of the width, 2"), ("z:1.001", "whole pixels"),
        ("z:100", "whole pixels from 1 to 8192"), ("dpr:0.5", "from 1 to 4"), ("dpr:5", "from 1 to 4"),
        ("el:yes", "allowed are 1, t and true, or 0, f and false"), ("el:", "allowed are 1, t and true"),
        ("ex:1", "\"extend\" is for the resizing type fit"), ("ex:1:no", "allowed is ce"),
        ("ex:1:ce:1", "allowed is 0"),
        ("w:0/rt:fit/ex:1", "\"extend\" needs a width and a height"), ("exar:1", "allowed is 0"),
        ("w:0/rt:force", "force needs a width and a height"), ("g:obj:face", "allowed are ce, no"),
        ("g:", "the type \"\""), ("g:no:10", "the offset \"10\"; allowed are 0"),
        ("g:no:0:0.1", "from the middle"), ("g:ce:1:0", "between -1 and 1"), ("g:no:0:0:0", "has 4 arguments"),
        ("g:no:nan", "the offset \"nan\""), ("g:sm:1", "has 2 arguments"), ("g:fp", "has 1 arguments; allowed is 3"),
        ("g:fp:2:0", "the x \"2\"; allowed are numbers from 0 to 1"), ("g:fp:0:nan", "the y \"nan\""),
        ("c:100:100", "\"c\" with the value \"100:100\" is not supported by Megaton"), ("t:1.5", "whole numbers"),
        ("t:256", "from 0 to 255"), ("t:1:ff0000", "the color of the top left pixel"), ("t:1::1", "allowed is 0"),
        ("pd:1:2:3:4:5", "has 5 arguments"), ("pd:-1", "whole numbers"), ("pd:8000", "larger than 8192"),
        ("ar:0", "always rotated"), ("rot:45", "multiples of 90"), ("rot:9223372036854775807", "whole numbers"),
        ("fl:2", "allowed are 1, t"), ("bg:ff", "three or six hex digits"), ("bg:#fff", "hex digits"),
        ("bg:1:2", "has 2 arguments"), ("bg:1:2:256", "the blue \"256\""), ("bg:ｆｆｆ", "hex digits"),
        ("bl:0.1", "are 0 and numbers from 0.3 to 100"), ("bl:-1", "from 0.3 to 100"), ("sh:11", "from 0.1 to 10"),
        ("pix:2", "are 0 and 1"), ("wm:2", "the opacity \"2\""), ("wm:1:ch", "the position \"ch\""),
        ("wm:1:ce:a", "the x offset \"a\""), ("wm:1:ce:1:8193", "numbers from -8192 to 8192"),
        ("wm:1:re:-1", "between the copies"), ("wm:1:ce:5000/dpr:2", "watermark.x is 10000"),
        ("wm:1::::2", "the scale \"2\""),
        ("wm:1::::0.001", "from 0.01 to 1"), ("wmt:aGk", "not supported by Megaton"), ("sm:0", "keep_copyright:1"),
        ("eth:1", "allowed is 0"), ("q:101", "from 0 to 100"), ("fq:webp", "pairs of format and quality"),
        ("fq:tiff:5", "the format \"tiff\""), ("fq:webp:0", "from 1 to 100"), ("mb:-1", "whole numbers"),
        ("f:png/mb:100", "maxBytes is for jpeg"), ("f:best", "the format \"best\""), ("f:heic", "the format \"heic\""),
        ("f:jxl", "allowed are jpeg, png, webp, avif, gif"), ("f:gif/kcr:1", "no metadata to keep"),
        ("raw:1", "never passed on unprocessed"), ("skp:jpg", "not supported by Megaton"),
        ("cb:a:b", "has 2 arguments"),
        ("exp:soon", "whole numbers"), ("exp:1700000000000", "whole numbers"), ("fn:", "1 to 255 bytes"),
        ("fn:a%2Fb", "without slashes"), ("fn:a%0D%0Ab", "control characters"), ("fn:%", "percent-encoded"),
        ("fn:%FF", "in UTF-8"), ("fn:a b:1", "base64"), ("att:maybe", "allowed are 1"),
        ("pr:none", "the preset \"none\""),
        ("pr:", "the preset \"\""), ("msr:100", "not supported by Megaton"), ("aq:size:1", "not supported by Megaton"),
        ("widht:5", "is unknown; allowed are auto_rotate, background"), ("widht:5", "did you mean \"width\"?"),
        (":", "is unknown"), ("::", "is unknown"), ("RS:fit", "is unknown"), ("rs%3Afit:1", "is unknown"),
    ]

    @Test(arguments: refused) func anOptionThatMegatonDoesNotHaveIsAnError(_ options: String, _ message: String) throws
    {
        let settings = try ImageURLSettings.unsigned()
        let error = #expect(throws: ImageURLError.self) { try settings.rendition("rs:fill:300:400/" + options) }
        #expect(error?.reason == .option && error?.status == 400)
        #expect(error?.description.contains(message) == true, "\(String(describing: error))")
    }

    @Test func eachNameHasAnExample() {
        let all = Self.accepted.map(\.options).flatMap { $0.split(separator: "/") }
        let names = Set(all.map { String($0.prefix { $0 != ":" }) })
        for option in ImageOption.allCases {
            for name in option.names where !names.contains(name) { Issue.record("\(name) has no example") }
            #expect(ImageOption.unsupported.isDisjoint(with: option.names))
        }
    }

    /// A URL that is not encoded looks like options.
    @Test func aSourceWithoutPlainHasAHint() throws {
        let settings = try ImageURLSettings.unsigned()
        let error = #expect(throws: ImageURLError.self) {
            try ImageURL(path: "/unsafe/w:300/http://example.com/a.jpg", at: 0, settings: settings)
        }
        #expect(error?.reason == .source && error?.description.contains("begins with plain/") == true)
    }
}
