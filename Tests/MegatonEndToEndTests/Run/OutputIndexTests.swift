import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// The index of earlier outputs, and the figures of the last ledger.
@Suite struct OutputIndexTests {
    private func line(
        _ source: String = "file:///in/a.png",
        bytes: Int = 10,
        sha256: String = "0a",
        from: String = "render",
        rendering: Double = 0.5
    ) throws -> EarlierLedger.Line {
        let json = #"""
            {"source":"\#(source)","status":"done","attempts":1,"seconds":1,"facts":{"bytes":77},
            "times":{"waiting":0,"fetching":0.25,"rendering":\#(rendering),"storing":0},
            "outputs":[{"name":"s","path":"/out/a.jpg","format":"jpeg","width":8,"height":8,"bytes":\#(bytes),
            "sha256":"\#(sha256)","from":"\#(from)","options":"00000000000000ff"}]}
            """#
        return try JSONDecoder().decode(EarlierLedger.Line.self, from: Data(json.utf8))
    }

    @Test func theLastLineOfANameIsFound() throws {
        var index = OutputIndex()
        let names = (0..<500).map { "dir/\($0 % 100).jpg" }
        for (number, name) in names.enumerated() {
            let line = try line(bytes: number)
            index.add(name, line.outputs[0], of: line)
        }
        index.seal()
        #expect(index.count == 100 && !index.isOverfull)
        for number in 0..<100 {
            let name = "dir/\(number).jpg"
            #expect(index.isOrphan(name))
            #expect(index.isLast(name, number: UInt32(401 + number)) && !index.isLast(name, number: 1))
            let marked = index.mark(name)
            let entry = try #require(marked)
            #expect(entry.hasSize(400 + number) && !entry.hasSize(number))
            #expect(entry.isFrom("file:///in/a.png") && !entry.isFrom("file:///in/b.png"))
            #expect(entry.mayHaveSource(ofSize: 77) && !entry.mayHaveSource(ofSize: 78))
            #expect(!index.isOrphan(name))
        }
        let unknown = index.mark("dir/100.jpg")
        #expect(unknown == nil && !index.isOrphan("dir/100.jpg"))
    }

    private static let variants: [(String, String, Bool)] = [
        ("A.jpg", "a.jpg", true), ("Sub/x.JPG", "sub/X.jpg", true), ("É.jpg", "e\u{301}.jpg", true),
        ("Straße.jpg", "STRASSE.jpg", true), ("σ.jpg", "ς.jpg", true), ("a\u{ad}b.jpg", "AB.jpg", true),
        ("a.jpg", "a.jpg", false), ("a.jpg", "b.jpg", false), ("é.jpg", "e.jpg", false),
    ]

    @Test(arguments: variants)
    func aPresentOutputMayBeAVariantOfAnEarlierOne(_ earlier: String, _ present: String, _ isVariant: Bool) throws {
        var index = OutputIndex()
        let line = try line()
        for name in [earlier, "other.jpg", earlier] { index.add(name, line.outputs[0], of: line) }
        index.seal()
        for name in ["Other.jpg", present, present] { index.mark(name) }
        #expect(index.variants.names(of: earlier).map { Array($0.utf8) } == (isVariant ? [Array(present.utf8)] : []))
        #expect(index.variants.names(of: "other.jpg") == ["Other.jpg"] && !index.variants.isOverfull)
        let (orphan, again) = (index.takeOrphan("other.jpg"), index.takeOrphan("other.jpg"))
        #expect(orphan != nil && again == nil, "each counts once")
    }

    /// A hard link in the place of a file system that ignores case.
    @Test func aFileUnderTwoNamesIsOneFile() throws {
        let directory = try TestDirectory()
        try directory.write(Data("image".utf8), to: "A.jpg")
        try directory.write(Data("image".utf8), to: "B.jpg")
        try #require(link(directory.path + "/A.jpg", directory.path + "/a.jpg") == 0)
        let root = OutputRoot(directory.path)
        #expect(root.isSameFile("A.jpg", as: ["x.jpg", "a.jpg"]))
        #expect(!root.isSameFile("B.jpg", as: ["a.jpg", "b.jpg"]) && !root.isSameFile("A.jpg", as: []))
        #expect(!root.isSameFile("x.jpg", as: ["a.jpg"]), "there is no file to lose")
        #expect(!root.isSameFile("B.jpg", as: ["B.jpg/b.jpg"]), "a file is no directory")
    }

    private static let names: [(String, String?)] = [
        ("/out/a.jpg", "a.jpg"), ("/out//b/./c.jpg", "b/c.jpg"), ("/out", nil), ("/outer/a.jpg", nil),
        ("/out/../etc/a.jpg", nil), ("/a.jpg", nil), ("/out/", nil), ("/out/\u{301}a.jpg", "\u{301}a.jpg"),
    ]

    @Test(arguments: names)
    func namesAreThoseBeneathTheDirectory(_ path: String, _ name: String?) {
        #expect(OutputRoot("/out").name(of: path) == name)
    }

    @Test func linksHaveTheNamesOfTheirTargetsToo() throws {
        let directory = try TestDirectory()
        try directory.write(Data(), to: "real/a.jpg")
        try #require(symlink("real", directory.path + "/link") == 0)
        try #require(symlink("/usr", directory.path + "/away") == 0)
        var root = OutputRoot(directory.path)
        var names: [[String]] = []
        for path in ["link", "real", "away"].map({ "\(directory.path)/\($0)/a.jpg" }) + ["/usr/a.jpg"] {
            names.append(root.names(of: path))
        }
        #expect(names == [["link/a.jpg", "real/a.jpg"], ["real/a.jpg"], ["away/a.jpg"], []])
    }

    /// The first reading asks three times, once for each line, and the second one, which saves them, as often.
    @Test(arguments: [1, 3, 4, 6])
    func aSignalEndsTheReadingOfALedger(_ stop: Int) throws {
        let directory = try TestDirectory()
        let lines = (0..<2).map { number in
            #"{"source":"file:///in/\#(number).png","status":"done","outputs":[{"name":"s","format":"jpeg","bytes":1,"#
                + #""sha256":"0a","from":"render","path":"\#(directory.path)/out/\#(number).jpg"}]}"# + "\n"
        }
        // A line of a failed job has no output.
        let failed = #"{"source":"file:///in/x.png","status":"failed","outputs":[]}"# + "\n"
        let text = [lines[0], failed, lines[1]].joined()
        let ledger = try directory.write(Data(text.utf8), to: "ledger.jsonl")
        let before = directory.files
        func finder() -> OrphanFinder {
            OrphanFinder(EarlierLedger(ledger: ledger), output: directory.path + "/out", others: [])
        }
        var asked = 0
        let error = #expect(throws: CLIError.self) {
            try finder().prepare {
                asked += 1
                return asked >= stop
            }
        }
        #expect(error?.code == 130 && asked == stop && directory.files == before)
        try finder().prepare { false }
        #expect(directory.files.contains("ledger.jsonl.earlier"))
    }

    @Test func figuresAreMeans() throws {
        var figures = LedgerFigures()
        let (small, other) = (Rendition(name: "s", width: 8), Rendition(name: "x", width: 9))
        #expect(figures.bytes(of: small) == nil && figures.seconds(of: small) == nil)
        figures.add(try line(bytes: 10, rendering: 0.5))
        figures.add(try line("https://h.example/a.png", bytes: 30, rendering: 1.5))
        // A rendition from the cache took no time, and has a size.
        figures.add(try line(bytes: 20, from: "cache", rendering: 0))
        #expect(figures.lines == 3)
        #expect(figures.bytes(of: small) == 20 && figures.seconds(of: small) == 1)
        #expect(figures.bytes(of: other) == 20 && figures.seconds(of: other) == 1, "those of all")
        #expect(figures.sourceBytes(isRemote: true) == 77 && figures.fetchSeconds(isRemote: false) == 0.25)
    }

    @Test func onlyTheExpectedFileIsDeleted() throws {
        let directory = try TestDirectory()
        let data = Data("image".utf8)
        let digest = Checksum.sha256(data)
        func delete(_ name: String, _ bytes: Int = 5, _ sha256: String? = nil) -> OrphanFile.Ending {
            do throws(OrphanFile.Unreached) {
                let file = try OrphanFile(directory.path, name: name)
                return file.delete(bytes: bytes, sha256: sha256 ?? digest)
            } catch {
                return error.ending
            }
        }
        try directory.write(data, to: "a/b/c.jpg")
        try directory.write(data, to: "a/d.jpg")
        #expect(delete("a/b/c.jpg", 4) == .kept("it was changed"))
        #expect(delete("a/b/c.jpg", 5, String(repeating: "0", count: 64)) == .kept("it was changed"))
        #expect(delete("a/b") == .kept("it was changed"), "a directory is no file")
        #expect(delete("a/d.jpg/e.jpg") == .kept("a symbolic link or a file is in its path"))
        #expect(delete("a/x/c.jpg") == .gone && delete("a/b/x.jpg") == .gone)
        #expect(delete("a/b/c.jpg") == .deleted)
        #expect(directory.files == ["a/d.jpg"] && !FileManager.default.fileExists(atPath: directory.path + "/a/b"))
        #expect(delete("a/d.jpg") == .deleted)
        #expect(FileManager.default.fileExists(atPath: directory.path), "the output directory stays")
        #expect(!FileManager.default.fileExists(atPath: directory.path + "/a"))
    }
}
