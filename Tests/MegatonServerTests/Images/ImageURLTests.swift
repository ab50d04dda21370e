import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonServer

/// Image URLs as a whole: from a path to a source and a rendition.
@Suite struct ImageURLTests {
    @Test func thePublishedExampleIsRead() throws {
        let settings = try PublishedExample.settings()
        let path = "/\(PublishedExample.signature)\(PublishedExample.path)"
        let url = try ImageURL(path: path, at: 0, settings: settings)
        #expect(url.source == PublishedExample.source)
        let rendition = try url.options.rendition(defaultFormat: .webp, settings: settings)
        #expect(
            rendition == Rendition(width: 300, height: 400, fit: .cover, format: .png, gravity: .attention)
        )
    }

    /// The form of the documentation's page on processing, signed with Python's hmac module.
    @Test func theExampleWithAPresetIsRead() throws {
        var settings = try PublishedExample.settings()
        settings.presets = try ImagePresets(["sharp=sharpen:0.7"])
        let path = "/preset:sharp/resize:fill:300:400:0/gravity:sm/plain/http://example.com/images/curiosity.jpg@png"
        let url = try ImageURL(
            path: "/1DbacBC8JL_REI0hx1vYaz-6FCMEix4TV4_Bg2121fs" + path,
            at: 0,
            settings: settings
        )
        #expect(url.source == PublishedExample.source)
        #expect(try url.options.rendition(defaultFormat: .jpeg, settings: settings).sharpen == 0.7)
        #expect(throws: ImageURLError.self) {
            try ImageURL(path: "/AfrOrF3gWeDA6VOlDG4TzxMv39O7MXnF4CXpKUwGqRM" + path, at: 0, settings: settings)
        }
    }

    @Test func theFormatAfterTheSourceIsTheLastOne() throws {
        let settings = try ImageURLSettings.unsigned()
        let url = try ImageURL(path: "/_/w:1/f:webp/plain/http://example.com/a.jpg@avif", at: 0, settings: settings)
        #expect(url.options.format == .avif)
        #expect(try settings.url("w:1").options.format == nil)
        #expect(try settings.url("w:1").options.rendition(defaultFormat: .gif, settings: settings).format == .gif)
        let error = #expect(throws: ImageURLError.self) {
            try ImageURL(path: "/_/w:1/plain/http://example.com/a.jpg@bmp", at: 0, settings: settings)
        }
        #expect(error?.description.contains("\"bmp\"") == true)
    }

    @Test func withoutASizeTheSourceKeepsItsOwn() throws {
        let settings = try ImageURLSettings.unsigned()
        let rendition = try settings.rendition("f:webp")
        #expect(rendition.width == Rendition.maximumSide && rendition.height == Rendition.maximumSide)
        #expect(rendition.fit == .inside && !rendition.enlarge && rendition.format == .webp)
        let padded = try settings.rendition("pd:10:20/dpr:2/rt:fill/el:0")
        #expect(padded.padding == .init(top: 10, right: 20, bottom: 10, left: 20) && padded.dpr == 1)
        #expect(padded.width == Rendition.maximumSide - 40 && padded.height == Rendition.maximumSide - 20)
        for options in ["z:2", "dpr:2/el:1", "rt:fit/ex:1"] {
            let error = #expect(throws: ImageURLError.self) { try settings.rendition(options) }
            #expect(error?.description.contains("needs a width") == true, "\(options)")
        }
    }

    @Test func aLadderAllowsSomeSizes() throws {
        var settings = try ImageURLSettings.unsigned()
        settings.sizes = [300, 600]
        #expect(try settings.rendition("w:300").width == 300)
        #expect(try settings.rendition("w:300/h:600/dpr:1").height == 600)
        #expect(try settings.rendition("w:300/dpr:2").dpr == 2)
        #expect(try settings.rendition("w:100/z:3").width == 300)
        for options in ["w:301", "w:300/h:599", "w:300/dpr:1.01", "w:600/dpr:2", "w:300/z:0.5", "f:png", "q:50"] {
            let error = #expect(throws: ImageURLError.self) { try settings.rendition(options) }
            #expect(error?.reason == .option && error?.description.contains("allows") == true, "\(options)")
        }
        let error = #expect(throws: ImageURLError.self) { try settings.rendition("w:301") }
        #expect(error?.description == "The width is 301 pixels; this server allows 300, 600.")
        // The product is 110.00000000000001.
        settings.sizes = [110]
        #expect(try settings.rendition("w:100/dpr:1.1").dpr == 1.1)
        #expect(throws: ImageURLError.self) { try settings.rendition("w:100/dpr:1.1000000000001") }
        settings.sizes = [300]
        let other = #expect(throws: ImageURLError.self) { try settings.rendition("w:100/dpr:1.1") }
        #expect(other?.description == "The width is 110 pixels; this server allows 300.")
    }

    @Test func expiredURLsAreRefused() throws {
        let settings = try ImageURLSettings.unsigned(["soon=exp:100"])
        #expect(try settings.url("w:1/exp:100", at: 100).options.expiry == 100)
        #expect(try settings.url("w:1/exp:0", at: 100).options.expiry == nil)
        for options in ["w:1/exp:100", "w:1/exp:100/exp:0", "exp:100/exp:200/w:1", "w:1/pr:soon"] {
            let error = #expect(throws: ImageURLError.self) { try settings.url(options, at: 101) }
            #expect(error?.reason == .expired && error?.status == 404, "\(options)")
        }
    }

    @Test func namesOfFilesAreDecoded() throws {
        let settings = try ImageURLSettings.unsigned()
        #expect(try settings.url("w:1/fn:a%20b.jpg/att:1").options.fileName == "a b.jpg")
        #expect(try settings.url("w:1/fn:w6kuanBn:t/att:1").options.fileName == "é.jpg")
        #expect(try settings.url("w:1/fn:YQ==:1").options.fileName == "a")
        #expect(try settings.url("w:1/fn:YQ:0").options.fileName == "YQ")
        #expect(try settings.url("w:1/att:1").options.isAttachment)
        #expect(try !settings.url("w:1").options.isAttachment)
    }

    @Test func aWatermarkNeedsTheOperatorsImage() throws {
        var settings = try ImageURLSettings.unsigned()
        settings.watermark = nil
        let error = #expect(throws: ImageURLError.self) { try settings.rendition("w:1/wm:1") }
        #expect(error?.description.contains("this server has none") == true)
        #expect(try settings.rendition("w:1/wm:0").watermark == nil)
    }

    @Test func theOperatorMayAllowMoreFormats() throws {
        var settings = try ImageURLSettings.unsigned()
        settings.formats.insert(.jxl)
        #expect(try settings.rendition("w:1/f:jxl").format == .jxl)
    }

    /// Pieces of valid and of hostile URLs in random order end in a valid rendition or in a typed error.
    @Test func hostilePathsNeverBreakTheReader() throws {
        let settings = try ImageURLSettings.unsigned(["default=q:70", "a=pr:b:b", "b=w:100/bl:1"])
        let pieces = [
            "/", "//", ":", "::", "..", "/../", "%", "%2", "%2F", "%00", "%FF", "@", "@png", ".", ".png", "?", "#",
            "plain", "/plain/", "http://example.com/a.jpg", "aHR0cDovL2V4YW1wbGUuY29tL2EuanBn", "enc/", "-", "=",
            "\u{0}",
            "\u{301}", "é", "rs:fill:300:400", "w:", "h:", "nan", "inf", "-1", "1e309", "0x1p99", "9223372036854775808",
            "99999999999999999999", "g:fp:", "pd:", "wm:1:re:", "rot:", "pr:a", "pr:default", "fn:", "exp:", "bg:",
            "z:", "dpr:4", "t:", "mb:", "fq:", "0", "1", "/unsafe",
        ]
        var random = SeededGenerator(seed: 20)
        var read = 0
        for _ in 0..<5000 {
            let count = Int.random(in: 0...12, using: &random)
            var path = (0..<count).map { _ in random.pick(pieces) }.joined()
            if random.once(in: 2) { path = "/unsafe/w:300/\(path)/plain/a" }
            do throws(ImageURLError) {
                let url = try ImageURL(path: path, at: 0, settings: settings)
                let rendition = try url.options.rendition(defaultFormat: .jpeg, settings: settings)
                #expect(rendition.validationError == nil && !url.source.isEmpty, "\(path)")
                read += 1
            } catch {
                #expect(!error.description.isEmpty && error.reason != .signature, "\(path)")
            }
        }
        #expect(read > 0)
    }

    /// The page names each option.
    @Test func thePageHasAllOptions() throws {
        let rows = try DocumentationPages.lines(of: "docs/image-urls.md").map(\.text).filter { $0.hasPrefix("| `") }
        let documented = Set(rows.flatMap { $0.split(separator: "|")[0].split(separator: "`").map(String.init) })
        for option in ImageOption.allCases {
            for name in option.names where !documented.contains(name) { Issue.record("\(name) is not documented") }
        }
    }
}
