import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// Names of outputs are shown as they are: no character in them changes the text direction or breaks a line of a
/// listing.
struct OutputNameTests {
    private static let hidden: [UInt32] =
        [0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0x7F, 0x80, 0x85, 0x9F, 0x0A, 0x1B] + Array(0x202A...0x202E)
        + Array(0x2066...0x2069)

    @Test(arguments: hidden) func aNameLosesWhatChangesItsLook(_ value: UInt32) throws {
        let scalar = try #require(Unicode.Scalar(value))
        #expect(OutputTemplate.plain("a\(scalar)gpj.exe") == "a_gpj.exe")
        let encoded = String(scalar).utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let template = try OutputTemplate("file:///out/{path}/{stem}-{host}.{ext}")
        let path = template.path(
            source: "https://example.org/x\(encoded)y/a\(encoded)b.jpg",
            rendition: Rendition(width: 1),
            size: PixelSize(width: 1, height: 1)
        )
        #expect(path == "/out/x_y/a_b-example.org.jpg")
    }

    /// Letters of any script, marks and joiners occur in users' file names.
    @Test(arguments: ["größe", "日本語 の写真", "صورة", "e\u{301}", "👩\u{200D}👧", "a\u{A0}b"])
    func otherNamesStay(_ name: String) {
        #expect(Array(OutputTemplate.plain(name).unicodeScalars) == Array(name.unicodeScalars))
    }

    /// The template that was read last is known again by its bytes: equal strings may name two directories.
    @Test func spellingsOfALetterAreDirectoriesOfTheirOwn() throws {
        let composed = "file:///out/\u{E9}/{stem}.{ext}"
        let decomposed = "file:///out/e\u{301}/{stem}.{ext}"
        for text in [composed, decomposed, composed, composed, decomposed] {
            let template = try OutputTemplate(text)
            let path = template.path(
                source: "https://example.org/a.jpg",
                rendition: Rendition(width: 1),
                size: PixelSize(width: 1, height: 1)
            )
            let expected = text.dropFirst("file://".count).prefix { $0 != "{" } + "a.jpg"
            #expect(path.utf8.elementsEqual(expected.utf8))
        }
    }

    /// Fault: a long name with a dot at its beginning lost its hash with its extension, and two had one stem.
    @Test func longNamesAreDistinct() throws {
        let beginning = "2024.06. " + String(repeating: "x", count: 150)
        let names = ["\(beginning)ab.jpg", "\(beginning)bb.jpg"]
        let stems = names.map { OutputTemplate.stem(of: $0) }
        #expect(stems == names.map { "\(beginning.prefix(140))-\(OutputTemplate.hash($0))" })
        let template = try OutputTemplate("file:///out/{stem}.{ext}")
        let path = template.path(
            source: "https://example.org/\(beginning.replacing(" ", with: "%20"))ab.jpg",
            rendition: Rendition(width: 1),
            size: PixelSize(width: 1, height: 1)
        )
        #expect(path == "/out/\(stems[0]).jpg")
    }

    @Test(arguments: [
        ("a.jpg", "a"), ("a.b.jpg", "a.b"), (".hidden", ".hidden"), ("a", "a"), ("..", "_"), ("", "_"),
        ("a/b.png", "a_b"),
    ])
    func theStemOfANameIsSafe(_ file: String, _ stem: String) {
        #expect(OutputTemplate.stem(of: file) == stem)
    }

    private func path(_ output: String, id: String? = nil, labels: Job.Labels? = nil) throws -> String {
        try OutputTemplate(output).path(
            source: "https://example.org/x/a.jpg",
            rendition: Rendition(name: "s", width: 1),
            size: PixelSize(width: 1, height: 1),
            id: id,
            labels: labels
        )
    }

    @Test func idsAndLabelsStandInOutputs() throws {
        let labels: Job.Labels = ["set": .text("a/../b"), "order": .integer(12), "ok": .bool(true), "q": .number(1.5)]
        let output = "file:///out/{label.set}/{label.order}-{label.ok}-{label.q}/{id}.{ext}"
        #expect(try path(output, id: "j:1.2", labels: labels) == "/out/a_.._b/12-true-1.5/j:1.2.jpg")
        #expect(try path("file:///out/{label.set}/{id}", id: "..", labels: ["set": .text("..")]) == "/out/_/_")
        #expect(try path("file:///out/{label.set}/x", labels: ["set": .text("")]) == "/out/_/x")
        #expect(try path("file:///o/{label.a.b c}", labels: ["a.b c": .text("\u{202E}x")]) == "/o/_x")
    }

    /// Fault: the slash before a combining mark was not found, so that a link in front of it was not looked at.
    @Test(arguments: [
        ("file:///o/link/%CC%81x{stem}", "/o/link/"), ("file:///o/{stem}", "/o/"), ("file:///%CC%81x{stem}", "/"),
        ("file:///{stem}", "/"),
    ])
    func theDirectoryOfATemplateEndsWithItsLastSlash(_ output: String, _ directory: String) throws {
        #expect(try OutputTemplate(output).directory.utf8.elementsEqual(directory.utf8))
    }

    @Test func aMissingLabelIsNamed() throws {
        let template = try OutputTemplate("file:///out/{label.set}/{id}.{ext}")
        #expect(template.problem(with: ["set": .text("a")]) == nil)
        for labels in [nil, ["sets": LabelValue.text("a")]] {
            let problem = try #require(template.problem(with: labels))
            #expect(problem == "output has {label.set}, and the job has no label \"set\"")
        }
    }

    @Test(arguments: [
        ("file:///o/{label.}", "unknown placeholder {label.}"), ("file:///o/{ids}", "known are {ext} {hash}"),
        ("file:///o/{id", "without its \"}\""), ("file:///o/{id}/../x", "must not contain"),
        // A slash before a combining mark is another character of Swift, and a slash of the file system.
        ("file:///o/../\u{301}x/{id}", "must not contain"),
    ])
    func aFaultOfATemplateIsNamed(_ output: String, _ words: String) throws {
        let error = #expect(throws: JobError.self) { _ = try OutputTemplate(output) }
        #expect(error?.message.contains(words) == true, "\(String(describing: error))")
    }
}
