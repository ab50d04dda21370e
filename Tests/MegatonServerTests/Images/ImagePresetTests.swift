import MegatonPipeline
import Testing

@testable import MegatonServer

/// Presets of image URLs.
@Suite struct ImagePresetTests {
    // Fault: the server started, and each URL with such a preset was an error.
    @Test func presetsWithOtherSizesThanTheAllowedAreRefused() throws {
        let presets = try ImagePresets(["small=width:320", "tiny=rs:fill:300:300", "sharp=sharpen:0.7"])
        var settings = ImageURLSettings(signature: try ImageSignature(keys: "", salts: "", allowsUnsigned: true))
        settings.sizes = [320, 640]
        let error = #expect(throws: ImageSettingsError.self) { try presets.check(settings) }
        let text = "\(try #require(error))"
        #expect(text.contains("\"tiny\"") && text.contains("300 pixels") && text.contains("320, 640"), "\(text)")
        settings.sizes = [300, 320]
        try presets.check(settings)
        settings.sizes = nil
        try presets.check(settings)
    }

    @Test func definitionsHaveNameAndOptions() throws {
        let presets = try ImagePresets([" awesome = resizing_type:fill/format:jpg ", "", "  ", "# comment", "b=q:1"])
        #expect(presets.names == ["awesome", "b"])
        #expect(
            try presets.expandedWithDefault([ImageArguments("pr:awesome"), ImageArguments("w:1")])
                == [ImageArguments("resizing_type:fill"), ImageArguments("format:jpg"), ImageArguments("w:1")]
        )
    }

    @Test(
        arguments: [
            (["small"], "is not name=options"), (["=w:1"], "needs a name"), (["a:b=w:1"], "without : and /"),
            (["a/b=w:1"], "without : and /"), (["a="], "is not an option"), (["a=w:1/"], "is not an option"),
            (["a=w"], "\"w\", which is not an option"), (["a=w:1", "a=w:2"], "two presets \"a\""),
            (["a=w:x"], "the preset \"a\" is invalid"), (["a=c:1:1"], "not supported by Megaton"),
            (["a=pr:b"], "the preset \"b\""), (["a=pr:a"], "without this one in them"),
            (["a=pr:b", "b=w:1/pr:a"], "without this one in them"),
        ] as [([String], String)]
    )
    func definitionsThatCannotBeUsedAreErrors(_ definitions: [String], _ message: String) {
        let error = #expect(throws: ImageSettingsError.self) { try ImagePresets(definitions) }
        #expect(error?.description.contains(message) == true, "\(String(describing: error))")
    }

    @Test func theDefaultAppliesFirst() throws {
        let settings = try ImageURLSettings.unsigned(["default=w:100/q:50", "large=w:1000"])
        #expect(try settings.rendition("f:webp").width == 100)
        #expect(try settings.rendition("w:200").width == 200)
        #expect(try settings.rendition("pr:large").width == 1000)
        #expect(try settings.rendition("pr:large/w:300").width == 300)
        #expect(try settings.rendition("w:300/pr:large").quality == 50)
        #expect(try settings.rendition("w:300/pr:large").width == 1000)
    }

    @Test func presetsMayContainOthers() throws {
        let settings = try ImageURLSettings.unsigned(["a=pr:b:c/w:3", "b=w:1/h:1", "c=w:2/q:9"])
        let rendition = try settings.rendition("pr:a")
        #expect(rendition.width == 3 && rendition.height == 1 && rendition.quality == 9)
    }

    /// Twenty presets of two others each would be a million options.
    @Test func optionsOfPresetsAreLimited() throws {
        let doubling = (1...20).map { "p\($0)=pr:p\($0 - 1):p\($0 - 1)" }
        let error = #expect(throws: ImageSettingsError.self) { try ImagePresets(["p0=w:1"] + doubling) }
        #expect(error?.description.contains("more than 1024 options") == true)
        let settings = try ImageURLSettings.unsigned(["p0=w:1"] + doubling.prefix(10))
        #expect(try settings.rendition("pr:p10").width == 1)
        let many = #expect(throws: ImageURLError.self) { try settings.rendition("pr:p10:p0") }
        #expect(many?.reason == .option)
    }

    @Test func presetsOnlyModeAllowsNothingElse() throws {
        var settings = try ImageURLSettings.unsigned(["default=q:50", "small=w:100", "soft=bl:2"])
        settings.presetsOnly = true
        let rendition = try settings.rendition("small:soft")
        #expect(rendition.width == 100 && rendition.blur == 2 && rendition.quality == 50)
        #expect(try settings.rendition("small").blur == nil)
        let url = try ImageURL(path: "/_/small/plain/http://example.com/a@png", at: 0, settings: settings)
        #expect(url.options.format == .png)
        for options in ["w:100", "small:w", "small/w:100", "pr:small"] {
            #expect(throws: ImageURLError.self, "\(options)") { try settings.rendition(options) }
        }
    }
}
