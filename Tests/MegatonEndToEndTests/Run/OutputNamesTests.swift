import Foundation
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCLI

/// Names of outputs by `--name`.
@Suite(.timeLimit(.minutes(3))) struct OutputNamesTests {
    private static func name(
        _ template: String,
        _ path: String,
        _ job: Job,
        hasOwnID: Bool = true
    ) throws -> String {
        try OutputNames(template).template(path, for: job, hasOwnID: hasOwnID)
    }

    @Test func theClientKeepsThePlaceholdersOfRenditionsOnly() throws {
        var job = Job(id: "b.7", source: "https://example.org/a/b c.jpg", labels: ["set": .text("x/{y}")])
        let all = "{path}/{stem}-{name}-{width}x{height}.{ext}"
        #expect(try Self.name(all, "example.org/a/b c", job) == "a/b%20c-{name}-{width}x{height}.{ext}")
        let others = "{host}/{hash}/{id}/{label.set}.{ext}"
        let hash = OutputTemplate.hash(job.source)
        #expect(try Self.name(others, "example.org/a/b c", job) == "example.org/\(hash)/b.7/x_%7By%7D.{ext}")
        // Fault: an object below a prefix lost its first directory, as if it were the host.
        job.source = "s3://photos/in/2023/a.jpg"
        #expect(try Self.name("{path}/{stem}.{ext}", "2023/a", job) == "2023/a.{ext}")
        #expect(try Self.name("{path}/{stem}.{ext}", "photos/in/2023/a", job) == "in/2023/a.{ext}")
        job.source = "file:///in/sub/100%25.png"
        #expect(try Self.name("{path}/50% {stem}.{ext}", "sub/100%", job) == "sub/50%25%20100%25.{ext}")
        #expect(try Self.name("{path}/{stem}.{ext}", "...", job) == "....{ext}")
        #expect(try Self.name("{path}/{stem}/{ext}", "..", job) == "_/{ext}", "no part leads out of the directory")
    }

    @Test func aMissingLabelRefusesTheJob() {
        let error = #expect(throws: JobError.self) {
            _ = try Self.name("{label.set}.{ext}", "a", Job(source: "file:///a.png", labels: ["sat": .text("x")]))
        }
        #expect(error?.message.contains("has no label \"set\"") == true)
    }

    /// Fault: ids are made of the name of the batch, so that each run wrote new files.
    @Test func aJobWithoutAnIDOfItsOwnIsRefused() async throws {
        let job = Job(id: "batch.1", source: "file:///a.png")
        #expect(try Self.name("{stem}.{ext}", "a", job, hasOwnID: false) == "a.{ext}")
        let error = #expect(throws: JobError.self) {
            _ = try Self.name("{stem}-{id}.{ext}", "a", job, hasOwnID: false)
        }
        #expect(error?.message.contains("--id-column") == true)
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 40, height: 20), to: "a.png")
        let table = try home.directory.write(Data("sku,url\none,\(path)\n".utf8), to: "list.csv")
        let run = [table, "--workers", "1", "--name", "{id}.{ext}"]
        let named = try await home.run(run + ["--id-column", "sku"])
        #expect(named.code == 0 && home.outputs == ["one.jpg"], "\(named.errors)")
        // Fault: each row was refused, and the ledger of the run before was gone.
        for command in ["run", "plan"] {
            let refused = await (try home.megaton([command] + run + ["--output", home.output])).ending()
            #expect(refused.code == 64 && refused.errors.contains("name it by --id-column"), "\(refused.errors)")
        }
        let kept = try home.ledger().first
        #expect(home.outputs == ["one.jpg"] && kept?.status == .done)
        let list = try home.directory.write(Data("\(path)\n".utf8), to: "list.txt")
        let unnamed = try await home.run([list, "--workers", "1", "--name", "{id}.{ext}"])
        #expect(unnamed.code == 2, "\(unnamed.errors)")
        let message = try home.ledger().first?.error?.message ?? ""
        #expect(message.contains("it has no id of its own"), "\(message)")
    }

    @Test(arguments: [
        ("a/b-{name}.{ext}", "a/b-H-{name}.{ext}"), ("icon.{ext}", "icon-H.{ext}"), ("{name}.{ext}", "H-{name}.{ext}"),
        ("a.b/c", "a.b/c-H"), ("c.jpg", "c-H.jpg"), ("x.y-{width}.{ext}", "x.y-H-{width}.{ext}"),
        (".hidden", ".hidden-H"), ("d/-{name}", "d/H--{name}"),
    ])
    func aHashDistinguishesSourcesWithOneName(_ name: String, _ expected: String) {
        #expect(OutputNames.adding("H", to: name) == expected)
    }

    /// Fault: two of many sources with one name had the same short hash, and one replaced the image of the other.
    @Test func sourcesWithOneShortHashHaveNamesOfTheirOwn() {
        let sources = [0, 11522, 30826].map { "https://h/\($0)/a.jpg" }
        let (first, second) = ("a-bff59cc2", "a-bff59cc2f90c3946")
        var namer = OutputNamer()
        for _ in 0..<2 {
            let paths = sources.map { namer.path("a", for: $0) }
            #expect(paths == ["a", first, second])
        }
        // Another source whose own name is that of one with a hash.
        let other = namer.path(first, for: "https://h/b.jpg")
        #expect(other.hasPrefix("\(first)-"))
        var overfull = OutputNamer(limit: 0)
        let hashed = sources.dropFirst().map { overfull.path("a", for: $0) }
        #expect(hashed == ["a-bff59cc269dbe285", second])
    }

    /// Fault: two presets with a rendition of one name, and a name that ends like that of a rendition, led to one file
    /// for two images.
    @Test func eachRenditionHasAFileOfItsOwn() {
        func rendition(_ name: String, _ width: Int) -> Rendition { Rendition(name: name, width: width) }
        func file(_ path: String) -> String { "\(path)-{name}.{ext}" }
        var namer = OutputNamer()
        let (card, page) = ([rendition("small", 64)], [rendition("small", 200), rendition("large", 800)])
        for _ in 0..<2 {
            #expect(namer.path("a", for: "file:///a.jpg", card, template: file) == "a")
            let other = namer.path("a", for: "file:///a.jpg", page, template: file)
            #expect(other.hasPrefix("a-") && other.count == 10)
        }
        #expect(namer.path("b", for: "file:///b.jpg", [rendition("small-thumb", 64)], template: file) == "b")
        let third = namer.path("b-small", for: "file:///b-small.jpg", [rendition("thumb", 64)], template: file)
        #expect(third.hasPrefix("b-small-") && third.count == 16)
        // Fault: the third preset of a source whose name another one has had the file of the second.
        #expect(namer.path("d", for: "file:///1/d.jpg", card, template: file) == "d")
        let sizes = [100, 200, 300].map {
            namer.path("d", for: "file:///2/d.jpg", [rendition("small", $0)], template: file)
        }
        #expect(Set(sizes + ["d"]).count == 4)
        // Fault: files counted against the limit of paths, so that later sources had other names after an upgrade.
        var full = OutputNamer(limit: 2)
        #expect(["e", "f"].map { full.path($0, for: "file:///\($0).jpg", page, template: file) } == ["e", "f"])
        #expect(full.path("g", for: "file:///g.jpg", page, template: file).count == 18)
        // Names with the size of a rendition are its own.
        let sized = { (path: String) in "\(path)-{width}.{ext}" }
        #expect(namer.path("c", for: "file:///c.jpg", card, template: sized) == "c")
        #expect(namer.path("c", for: "file:///c.jpg", page, template: sized) == "c")
    }

    private static let impossibleNames: [(options: [String], words: String)] = [
        (["--name", "x"], "--name needs --output"), (["-o", "o", "--name", "/x/{stem}"], "begins with a slash"),
        (["-o", "o", "--name", "{path}/../{stem}"], "must not contain"), (["-o", "o", "--name", ""], "is empty"),
        (["-o", "o", "--name", "{stem}/"], "ends with a slash"), (["-o", "o", "--name", "{nam}"], "{nam}; known are"),
        (["-o", "o", "--name", "{stem}", "--size", "8", "--size", "9"], "add {name}"),
        (["-o", "o", "--name", "{name}.{ext}"], "the same name for all sources"),
        (["-o", "s3:/thumbs"], "did you mean s3://thumbs?"), (["-o", "S3:a/b"], "did you mean s3://a/b?"),
        (["-o", "{path}/x"], "--name '{path}/{stem}-{name}.{ext}'"),
        // Fault: a directory of that name was made in the current one.
        (["-o", "gs://thumbs/a"], "--output gs://thumbs/a names a URL, and files go to a directory"),
        (["-o", "file:///srv/thumbs"], "name it by its path"),
        (["-o", "tar:s3://thumbs/a"], "shards go to a directory of this machine"),
        (["-o", "o", "--ledger", "s3://thumbs/l.jsonl"], "--ledger s3://thumbs/l.jsonl is a URL"),
        // Faults: directories of these names were made, and JPEGs whose names end with `.png`.
        (["-o", "thumb.jpg"], "looks like the name of a file. Give a directory"),
        (["-o", "tn_%s.JPG"], "--name '{stem}.{ext}'"), (["-o", "o/out.tar"], "--output tar:DIR"),
        (["-o", "o", "--name", "{stem}.png"], "ends with .png, and the format of 256x256 is jpeg. Write {ext}"),
        (["-o", "o", "--name", "{stem}.JPEG", "--format", "webp"], "or give --format jpeg"),
    ]

    @Test func namesThatCannotWorkAreWrongUsage() async throws {
        try await inPairs(LongTests.sample(Self.impossibleNames, every: 2)) { (options, words) in
            let home = try RunTests.Home()
            try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "in/a.png")
            for command in ["run", "submit"] where command == "submit" || options.first == "-o" {
                let redis = command == "submit" ? ["--redis", "redis://127.0.0.1:1"] : []
                let ending = await (try home.megaton([command, "in"] + options + redis)).ending()
                #expect(ending.code == 64 && ending.errors.contains(words), "\(command): \(ending.errors)")
            }
        }
    }

    @Test func aNameMayEndWithItsFormatAndADirectoryMayHaveAnyNameIfItExists() async throws {
        let home = try RunTests.Home()
        try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "in/a.png")
        let named = try await home.run(["in", "-j", "1", "--name", "{stem}.small.jpeg"])
        #expect(named.code == 0 && home.outputs == ["a.small.jpeg"], "\(named.errors)")
        try FileManager.default.createDirectory(
            atPath: home.directory.path + "/a.jpg",
            withIntermediateDirectories: true
        )
        let existing = await (try home.megaton(["run", "in", "-j", "1", "-o", "a.jpg"])).ending()
        #expect(existing.code == 0, "\(existing.errors)")
    }

    /// Fault: a bucket, a sitemap and a list by --input-format passed for one source.
    @Test func aListOfAnyKindHasSeveralSources() async throws {
        try await inPairs([
            ["s3://bucket/prefix/"], ["https://example.org/sitemap.xml"], ["list.dat", "--input-format", "txt"],
        ]) { input in
            let home = try RunTests.Home()
            try home.directory.write(Data("a.png\n".utf8), to: "list.dat")
            let run = ["run"] + input + ["-o", "o", "--name", "{name}.{ext}"]
            let ending = await (try home.megaton(run)).ending()
            #expect(ending.code == 64 && ending.errors.contains("the same name for all sources"), "\(ending.errors)")
        }
    }

    @Test func aRunNamesItsOutputsAndNoSourceReplacesAnother() async throws {
        let home = try RunTests.Home()
        for (index, name) in ["x/a.png", "y/a.png", "y/b.png"].enumerated() {
            let image = TestImage.quarters(width: 40, height: 20, seed: UInt8(index * 9))
            try home.directory.write(image, to: "in/\(name)")
        }
        let run = ["in", "--workers", "1", "--size", "8", "--size", "16"]
        let flat = try await home.run(run + ["--name", "{name}/{stem}.{ext}"])
        #expect(flat.code == 0, "\(flat.errors)")
        let names = home.outputs
        #expect(names.count == 6 && names.contains("8x8/a.jpg") && names.contains("16x16/b.jpg"), "\(names)")
        let hashed = names.filter { $0.hasPrefix("8x8/a-") }
        #expect(hashed.count == 1, "the second a.png has a hash in its name: \(names)")
        let paths = try home.ledger().flatMap(\.outputs).compactMap(\.path)
        #expect(Set(paths).count == 6)
    }

    @Test func labelsSortTheJobsOfAList() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 40, height: 20), to: "a.png")
        let lines = [
            #"{"source":"file://\#(path)","id":"one","labels":{"set":"train"}}"#,
            #"{"source":"file://\#(path)","id":"two","labels":{"set":"test"}}"#,
            #"{"source":"file://\#(path)","id":"three"}"#,
        ]
        let list = try home.directory.write(Data(lines.joined(separator: "\n").utf8), to: "jobs.jsonl")
        let arguments = [list, "--workers", "1", "--name", "{label.set}/{id}.{ext}"]
        let ending = try await home.run(arguments)
        #expect(ending.code == 2 && ending.errors.contains("no label \"set\""), "\(ending.errors)")
        #expect(home.outputs == ["test/two.jpg", "train/one.jpg"])
        let failed = try home.ledger().filter { $0.status == .failed }
        #expect(failed.map(\.error?.code) == ["invalid_job"])
        let dry = await (try home.megaton(["run"] + arguments + ["-o", home.output, "--dry-run"])).ending()
        #expect(dry.code == 2 && dry.output.contains("/train/one.jpg"), "\(dry.output) \(dry.errors)")
    }

    /// Fault: each row was refused while the run was under way.
    @Test func aLabelThatNoColumnGivesIsWrongUsage() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "a.png")
        let table = try home.directory.write(Data("url,categories\n\(path),cats\n".utf8), to: "list.csv")
        let arguments = [table, "--workers", "1", "--name"]
        let wrong = try await home.run(arguments + ["{label.category}/{stem}.{ext}"])
        #expect(wrong.code == 64 && wrong.errors.contains(#"its labels are "categories""#), "\(wrong.errors)")
        #expect(wrong.errors.contains("Did you mean {label.categories}?"), "\(wrong.errors)")
        let right = try await home.run(arguments + ["{label.categories}/{stem}.{ext}"])
        #expect(right.code == 0 && home.outputs == ["cats/a.jpg"], "\(right.errors)")
        let none = try await home.run(arguments + ["{label.categories}/{stem}.{ext}", "--label-columns", ""])
        #expect(none.code == 64 && none.errors.contains("its rows have no labels"), "\(none.errors)")
    }

    /// Fault: each row of standard input was refused, and the exit code was 2.
    @Test func aLabelThatStandardInputLacksIsWrongUsage() async throws {
        let home = try RunTests.Home()
        let path = try home.directory.write(TestImage.quarters(width: 8, height: 8), to: "a.png")
        let run = [
            "run", "-", "--input-format", "csv", "-o", home.output, "-j", "1", "--allow-read", home.directory.path,
        ]
        let table = Data("url,categories\n\(path),cats\n".utf8)
        let wrong = try await home.piped(table, run + ["--name", "{label.category}/{stem}.{ext}"])
        #expect(wrong.code == 64 && wrong.errors.contains("standard input has no column"), "\(wrong.errors)")
        #expect(wrong.errors.contains("Did you mean {label.categories}?"), "\(wrong.errors)")
        let right = try await home.piped(table, run + ["--name", "{label.categories}/{stem}.{ext}"])
        #expect(right.code == 0 && home.outputs == ["cats/a.jpg"], "\(right.errors)")
    }
}
