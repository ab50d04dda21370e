import ArgumentParser
import MegatonPipeline
import Testing

@testable import MegatonCLI

/// The flags and fields of renditions, which come from the table of options.
@Suite struct RenditionFlagTests {
    private func renditions(_ arguments: String...) throws -> [Rendition] {
        try RenditionOptions.parse(arguments).renditions()
    }

    private func message(_ arguments: String...) -> String {
        do {
            return "\(try RenditionOptions.parse(arguments))"
        } catch {
            return RenditionOptions.fullMessage(for: error)
        }
    }

    @Test func theHelpListsTheFlagsInTheirOrder() {
        let lines = RenditionOptions.helpMessage(columns: 200).split(separator: "\n")
        let flags = lines.filter { $0.hasPrefix("  --") }.map { $0.dropFirst(2).prefix { $0 != " " } }
        #expect(
            flags == [
                "--size", "--rendition", "--format", "--quality", "--fit", "--background", "--gravity", "--focus",
                "--dpr", "--enlarge", "--progressive", "--effort", "--lossless", "--chroma", "--animated",
                "--keep-metadata", "--profile", "--quality-profile", "--linear", "--fail-on", "--trim", "--rotate",
                "--flip", "--flatten", "--blur", "--sharpen", "--grayscale", "--padding", "--watermark", "--max-bytes",
                "--target-score",
            ]
        )
        #expect(RenditionOptions.helpMessage(columns: 1000).contains("gravity, focus=0.5:0.3, dpr, enlarge=true, "))
    }

    @Test func flagsAndFieldsAreTheSame() throws {
        let wanted = Rendition(
            width: 10,
            height: 20,
            fit: .cover,
            format: .webp,
            quality: 75,
            focus: .init(x: 0.5, y: 0.3),
            dpr: 1.5,
            enlarge: true,
            effort: 3,
            lossless: true,
            animated: true,
            keepMetadata: .copyright,
            profile: .keep,
            qualityProfile: .fast,
            failOn: .nothing
        )
        let fields =
            "width=10,height=20,fit=cover,format=webp,quality=75,focus=0.5:0.3,dpr=1.5,enlarge=true,effort=3,"
            + "lossless=true,animated=true,keepMetadata=copyright,profile=keep,qualityProfile=fast,failOn=none"
        #expect(try renditions("--rendition", fields) == [wanted])
        let flags = try renditions(
            "--size",
            "10x20",
            "--fit",
            "cover",
            "--format",
            "webp",
            "--quality",
            "75",
            "--focus",
            "0.5,0.3",
            "--dpr",
            "1.5",
            "--enlarge",
            "--effort",
            "3",
            "--lossless",
            "--animated",
            "--keep-metadata",
            "copyright",
            "--profile",
            "keep",
            "--quality-profile",
            "fast",
            "--fail-on",
            "none"
        )
        #expect(flags == [wanted])
        var full = Rendition(width: 5, format: .avif)
        full.chroma = .s444
        #expect(try renditions("--format", "avif", "--chroma", "444", "--size", "5x") == [full])
        #expect(try renditions("--rendition", "width=5,format=avif,chroma=4:4:4") == [full])
        #expect(try renditions() == [Rendition(width: 256, height: 256)])
        let both = try renditions("--progressive", "--rendition", "name=a,height=7,progressive=false", "--size", "x9")
        #expect(both == [Rendition(height: 9, progressive: true), Rendition(name: "a", height: 7)])
        #expect(try RenditionOptions.parse(["--quality", "3"]).given == "--quality")
        #expect(try RenditionOptions.parse(["--animated", "--format", "gif", "--size", "3"]).given == "--size")
        #expect(try RenditionOptions.parse([]).given == nil)
    }

    /// The commas of a watermark's JSON do not end its field.
    @Test func effectsAreFlagsAndFields() throws {
        var wanted = Rendition(width: 10, height: 10)
        (wanted.trim, wanted.rotate, wanted.flip) = (10, .quarter, .horizontal)
        (wanted.blur, wanted.sharpen, wanted.grayscale) = (2, 0.5, true)
        (wanted.padding, wanted.maxBytes) = (.init(top: 1, right: 2, bottom: 3, left: 4), 9000)
        wanted.watermark = .init(.text(#"a, "b" {c"#), opacity: 0.5)
        let json = #"{"text":"a, \"b\" {c","opacity":0.5}"#
        let flags = try renditions(
            "--size",
            "10",
            "--trim",
            "true",
            "--rotate",
            "90",
            "--flip",
            "horizontal",
            "--blur",
            "2",
            "--sharpen",
            "true",
            "--grayscale",
            "--padding",
            "1,2,3,4",
            "--watermark",
            json,
            "--max-bytes",
            "9000"
        )
        #expect(flags == [wanted])
        let fields = "trim=true,rotate=90,flip=horizontal,blur=2,sharpen=0.5,grayscale=true,padding=1:2:3:4"
        let field = "width=10,height=10,watermark=\(json),maxBytes=9000,\(fields)"
        #expect(try renditions("--rendition", field) == [wanted])
        #expect(try renditions("--watermark", "© Me", "--size", "9")[0].watermark == .init(.text("© Me")))
        #expect(try renditions("--trim", "true", "--rendition", "width=5,trim=false")[0].trim == nil)
        #expect(message("--blur", "200").contains("--blur is 200.0; allowed are numbers from 0.3 to 100"))
        #expect(message("--padding", "1,2").contains("--padding: padding must be pixels such as 10"))
        #expect(message("--watermark", #"{"text":"a","opacity":2}"#).contains("--watermark.opacity is 2.0; allowed"))
        #expect(message("--watermark", #"{"txt":"a"}"#).contains("unknown field \"txt\""))
        let formats = "--max-bytes is for jpeg, webp, avif and jxl, not png"
        #expect(message("--max-bytes", "5", "--format", "png").contains(formats))
        #expect(message("--target-score", "5").contains("--target-score is 5.0; allowed are numbers from 10 to 100"))
        let lossless = message("--target-score", "70", "--format", "webp", "--lossless")
        #expect(lossless.contains("--target-score and lossless exclude each other"), "\(lossless)")
    }

    /// Fault: fields in the syntax of `--rendition` were drawn as a text on each image.
    @Test func fieldsOfAWatermarkAreNoText() throws {
        for (text, json) in [
            ("image=marks/logo.png,opacity=0.5", #"{"image":"logo.png","opacity":0.5}"#),
            ("text=a, b,margin=10", #"{"text":"a, b","margin":10}"#),
            (" scale = .2", #"{"text":"© Me","scale":0.2}"#),
        ] {
            let refused = message("--watermark", text)
            #expect(refused.contains("Give these as JSON: \(json); {\"text\":"), "\(refused)")
        }
        let field = message("--rendition", "width=5,watermark=image=logo.png")
        #expect(field.contains(#"--rendition: the watermark"#) && field.contains(#"{"image":"logo.png"}"#), "\(field)")
        for text in ["a=b", "© Me, scale=2", #"{"text":"image=logo.png"}"#] {
            #expect(try renditions("--watermark", text).count == 1)
        }
    }

    @Test func messagesNameTheFlagOrTheField() throws {
        #expect(message("--gravity", "nrth").contains("--gravity: gravity must be one of center (also centre), north"))
        #expect(message("--gravity", "nrth").contains("(did you mean north?), not \"nrth\""))
        #expect(message("--rendition", "width=5,effort=x").contains("--rendition: effort must be a number, not \"x\""))
        #expect(message("--rendition", "heigth=1").contains("no field \"heigth\"; its fields are name, width, height"))
        #expect(message("--rendition", "wdth=1").contains(" Did you mean width?"))
        #expect(message("--rendition", "width=5,background=red").contains("background must look like #ffffff"))
        let background = "--background: background must look like #ffffff, ffffff, #fff or fff, not \"red\""
        #expect(message("--background", "red").contains(background))
        #expect(try renditions("--background", "f80")[0].background == Color(red: 255, green: 136, blue: 0))
        #expect(try renditions("--background", "#F80")[0].background == Color(red: 255, green: 136, blue: 0))
        #expect(message("--quality", "abc").contains("'abc' is invalid for '--quality <quality>'"))
        #expect(message("--chroma", "422").contains("--chroma: chroma must be one of 420 (also 4:2:0), 444"))
        #expect(message("--chroma", "444", "--format", "webp").contains("chroma is for jpeg and avif, not webp"))
        #expect(message("--focus", "1").contains("--focus: focus must look like 0.5,0.3"))
        // Fault: the default size was named, which the user never wrote.
        #expect(message("--quality", "101").contains("--quality is 101; allowed are 1 to 100"))
        #expect(message("--size", "9000").contains("--size 9000: width is 9000; allowed are"))
        let both = message("--quality", "5", "--rendition", "width=5,quality=101")
        #expect(both.contains("--rendition width=5,quality=101: quality is 101; allowed are 1 to 100"))
    }
}
