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
                "--size", "--rendition", "--format", "--quality", "--fit", "--gravity", "--focus", "--dpr",
                "--enlarge", "--progressive", "--effort", "--lossless", "--chroma", "--animated", "--keep-metadata",
                "--profile", "--quality-profile", "--fail-on",
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

    @Test func messagesNameTheFlagOrTheField() {
        #expect(message("--gravity", "nrth").contains("--gravity: gravity must be one of center (also centre), north"))
        #expect(message("--gravity", "nrth").contains("(did you mean north?), not \"nrth\""))
        #expect(message("--rendition", "width=5,effort=x").contains("--rendition: effort must be a number, not \"x\""))
        #expect(message("--rendition", "heigth=1").contains("no field \"heigth\"; its fields are name, width, height"))
        #expect(message("--rendition", "width=5,background=red").contains("background must look like #ffffff"))
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
