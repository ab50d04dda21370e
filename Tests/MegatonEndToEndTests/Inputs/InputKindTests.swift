import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// Inputs that are of another kind than their names say, and names with line ends.
@Suite(.timeLimit(.minutes(3))) struct InputKindTests {
    private static let tar = Data("in/a.png".utf8) + Data(count: 249) + Data("ustar\0".utf8) + Data(count: 249)

    /// Name and content of a file, and the part of the message behind the name.
    private static let kinds: [(String, Data, String)] = [
        ("jobs.json", Data("[\n  {\"source\": \"a.png\"}]".utf8), "is a JSON array; one object per line is a .jsonl"),
        ("jobs.jsonl", Data("\u{FEFF}[{\"source\": \"a.png\"}]".utf8), "is a JSON array"),
        (
            "job.json", Data("{\"source\": \"a.png\"}".utf8),
            "is JSON: jobs are one object per line in a .jsonl file; --jobs-from reads"
        ),
        ("archive.tar", tar, "is a tar archive: unpack it first"),
        ("list.csv", Data([0x50, 0x4B, 3, 4, 20, 0]), "is a ZIP archive or an Office document: unpack"),
        ("list.txt", Data([0x1F, 0x8B, 8, 0]), "is compressed with gzip: unpack it first"),
        ("list.txt", Data("<!DOCTYPE html>\n<img src='a.png'>".utf8), "is a page of HTML: list the URLs"),
        ("list.txt", Data("id,url\n1,a.png\n".utf8), "is a CSV: name it .csv, or give --input-format csv"),
        ("jobs.jsonl", Data("id\turl\n1\ta.png\n".utf8), "is a TSV: name it .tsv"),
        ("list.csv", Data([0xFF, 0xFE, 0x75, 0, 0x72, 0]), "is a text in UTF-16: save it as UTF-8"),
        ("page", Data("%PDF-1.7\n".utf8), "is a PDF: save its images"),
        ("list.txt", Data([0x89, 0x50, 0x4E, 0x47, 13, 10, 26, 10]), "is an image: name it with"),
        ("list.parquet", Data("PAR1\u{15}\u{4}".utf8), "is a table in Parquet, which is not read: convert it to CSV"),
        ("list.csv", Data("PAR1\u{15}\u{4}".utf8), "is a table in Parquet"),
        ("urls", Data("# mine\n\nhttps://h.example/a\n".utf8), "is a list of URLs or paths: name it .txt, or give"),
        ("urls.lst", Data("in/a.png".utf8), "is a list of URLs or paths: name it .txt, or give --input-format txt"),
        ("names.txt", Data("./a\nb\0./c\0".utf8), "is a list of names that end with zero bytes"),
        ("names", Data("a.png\0b.png\0".utf8), "is a list of names that end with zero bytes"),
        ("feed", Data("<?xml version=\"1.0\"?><rss/>".utf8), "is XML"),
    ]

    @Test(arguments: kinds)
    func anInputOfAnotherKindIsNamed(_ name: String, _ content: Data, _ message: String) async throws {
        let home = try RunTests.Home()
        let file = try home.directory.write(content, to: name)
        let ending = try await home.run([file, "-j1"])
        #expect(ending.code == 64 && ending.errors.contains("\(name) \(message)"), "\(ending.errors)")
        #expect(!FileManager.default.fileExists(atPath: home.output))
    }

    @Test func aListOfJobsIsCheckedToo() async throws {
        let home = try RunTests.Home()
        let file = try home.directory.write(Data("[{}]".utf8), to: "jobs")
        let ending = try await home.run(["--jobs-from", file, "-j1"])
        #expect(ending.code == 64 && ending.errors.contains("jobs is a JSON array"), "\(ending.errors)")
    }

    @Test(arguments: [
        "", "a.pdf\n", "a\nb.png\n", "#a.png\n", "[1].png\n", "{a}.png\n", "#id,url\n", "id;name\n1;2\n", "url\n",
        "url,n", "<a.png>\n",
        "BM", "\u{0}", "II*\u{0}", "\u{1}/\u{0}",
    ])
    func otherBytesHaveNoKind(_ text: String) { #expect(FileKind(Array(text.utf8)) == nil) }

    @Test func imagesAreKnownByTheirBytes() {
        #expect(FileKind(Array(TestImage.quarters(width: 8, height: 8))) == .image)
        #expect(FileKind(Array("<?xml version='1.0'?>\n<svg xmlns=''/>".utf8)) == .image)
        #expect(FileKind(Array("RIFF....WEBPVP8 ".utf8)) == .image)
        #expect(FileKind(Array("....ftypavif....".utf8)) == .image)
    }

    /// Fault: each of its lines failed as a path that is missing, and nothing said that the file was taken for a list.
    @Test func aTextThatIsNoListIsReported() async throws {
        let home = try RunTests.Home()
        try home.writeImages("a.png")
        let texts = [
            ("README.txt", "# Pictures\n\nThese are pictures.\nSee below.\n", true),
            ("line.txt", "\u{FEFF}Pictures", true), ("long.txt", String(repeating: "no path\n", count: 1000), true),
            ("list.txt", "missing.png\n", false), ("mixed.txt", "a text\na.png\n", false), ("empty.txt", "#\n", false),
        ]
        for (name, text, isReported) in texts {
            let list = try home.directory.write(Data(text.utf8), to: name)
            let ending = try await home.run([list, "--dry-run"])
            let count = ending.errors.components(separatedBy: "\(name) is read as a list").count - 1
            #expect(count == (isReported ? 1 : 0), "\(ending.errors)")
        }
    }

    /// An image with the extension of one is left to a worker, as one in a directory is.
    @Test func aDamagedImageHasALineInTheLedger() async throws {
        let home = try RunTests.Home()
        let file = try home.directory.write(Data("<!DOCTYPE html>".utf8), to: "page.jpg")
        let ending = try await home.run([file, "-j1"])
        #expect(ending.code == 2, "\(ending.errors)")
        #expect(try home.ledger().count == 1)
    }

    @Test func namesMayContainLineEnds() async throws {
        let home = try RunTests.Home()
        let names = ["in/a\nb.png", "in/ c.png", "#d.png", "{e}.png", "in/\u{FEFF}f.png"]
        for (index, name) in names.enumerated() {
            try home.directory.write(TestImage.quarters(width: 32, height: 32, seed: UInt8(index)), to: name)
        }
        // Also without a zero byte at the end, and with an empty name.
        let text = names.joined(separator: "\0") + "\0\0in/missing.png"
        let options = ["-o", home.output, "-j1", "--json"]
        let ending = try await home.piped(Data(text.utf8), ["run", "-", "-0"] + options)
        #expect(ending.code == 2, "\(ending.errors)")
        let outcomes = try home.ledger()
        #expect(outcomes.count == 6 && outcomes.count { $0.status == .done } == 5, "\(ending.errors)")
        #expect(outcomes.first { $0.status == .failed }?.error?.code == "not_found")
        #expect(outcomes.contains { $0.source.hasSuffix("/in/a%0Ab.png") && $0.status == .done })
        let list = try home.directory.write(Data(text.utf8), to: "list.txt")
        let dry = try await home.run([list, "--null", "--dry-run"])
        #expect(dry.code == 0 && dry.errors.contains("6 outputs of 6 jobs"), "\(dry.errors)")
        let wrong = try await home.run([list, "--dry-run"])
        #expect(wrong.code == 64 && wrong.errors.contains("give --null (-0)"), "\(wrong.errors)")
    }

    /// Bytes on standard input, and the part of the message behind its name.
    private static let piped: [(Data, String)] = [
        (Data("url,a\nx.jpg,1\n".utf8), "is a CSV: give --input-format csv."),
        (Data("id\turl\n1\ta.png\n".utf8), "is a TSV: give --input-format tsv."),
        (Data("in/a.png\0in/b.png\0".utf8), "is a list of names that end with zero bytes, as of find -print0: give"),
        (Data("a\nb\0c\0".utf8), "line 2 is refused: it has a zero byte"),
        (Data("<?xml version='1.0'?>\n<urlset/>".utf8), "is a sitemap: give --input-format sitemap."),
        (Data("<?xml version='1.0'?>\n<rss/>".utf8), "is XML: give --input-format sitemap if it is a sitemap"),
        (Data([0x1F, 0x8B, 8, 0]), "is compressed with gzip: unpack it first."),
        (Data("[{\"source\": \"a.png\"}]".utf8), "is a JSON array"),
        (Data("PAR1\u{15}\u{4}".utf8), "is a table in Parquet"),
        (TestImage.quarters(width: 8, height: 8), "is an image: save it as a file"),
    ]

    @Test func standardInputOfAnotherKindIsNamed() async throws {
        try await inPairs(Self.piped) { (content, message) in
            let home = try RunTests.Home()
            let ending = try await home.piped(content, ["run", "-", "--dry-run", "-o", home.output])
            #expect(ending.code == 64 || message.contains("refused") && ending.code == 2, "\(ending.errors)")
            #expect(ending.errors.contains("standard input") && ending.errors.contains(message), "\(ending.errors)")
        }
    }

    /// URLs that are lists or compressed by their names, and a part of the message.
    private static let urls: [(String, String)] = [
        ("https://h.example/list.csv?a=1", "is a CSV by its name, and of lists only sitemaps are read from URLs"),
        ("https://h.example/list.csv.gz", "curl -s URL | gunzip | megaton run - --input-format csv."),
        ("s3://bucket/jobs.jsonl", "aws s3 cp URL - | megaton run --jobs-from -."),
        ("s3://bucket", "names no object: write s3://bucket/ for all images of the bucket."),
        ("https://h.example/list.txt", "is a list of URLs and paths by its name"),
        ("https://h.example/list.parquet", "is a table in Parquet"),
        ("https://h.example/feed.xml.gz", "is compressed by its name: save it as a file and unpack it first"),
    ]

    @Test func aURLThatIsAListIsNamed() async throws {
        try await inPairs(Self.urls) { (url, message) in
            let home = try RunTests.Home()
            let ending = try await home.run([url, "--dry-run"])
            #expect(ending.code == 64 && ending.errors.contains(message), "\(ending.errors)")
        }
        let home = try RunTests.Home()
        for url in ["https://h.example/a.jpg", "https://h.example/a.csv/b", "https://h.example/a?b=c.csv"] {
            #expect(try await home.run([url, "--dry-run"]).code == 0, "\(url)")
        }
        let source = try await home.run(["https://h.example/list.csv", "--input-format", "txt", "--dry-run"])
        #expect(source.code == 0, "\(source.errors)")
    }

    @Test func aNameThatIsNotUTF8IsReportedWithItsBytes() async throws {
        let home = try RunTests.Home()
        try home.writeImages("good.png")
        let text = "good.png?caf!.png".utf8.map { $0 == UInt8(ascii: "?") ? 0 : $0 == UInt8(ascii: "!") ? 0xE9 : $0 }
        let options = ["-o", home.output, "-j1", "--json"]
        let ending = try await home.piped(Data(text), ["run", "-", "--null"] + options)
        #expect(ending.code == 2, "\(ending.errors)")
        let failed = try #require(try home.ledger().first { $0.status == .failed })
        #expect(failed.source.hasSuffix("/caf%E9.png") && failed.error?.code == "invalid_url", "\(failed)")
    }

    @Test func nullNeedsAListOfNames() async throws {
        let home = try RunTests.Home()
        try home.writeImages("a.png")
        let alone = try await home.run(["a.png", "--null"])
        #expect(alone.code == 64 && alone.errors.contains("--null has no effect"), "\(alone.errors)")
        let table = try await home.run(["-", "--null", "--input-format", "csv"])
        #expect(table.code == 64 && table.errors.contains("--null does not go with --input-format csv"))
    }
}
