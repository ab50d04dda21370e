import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCommandLine

/// CSV and TSV lists.
@Suite(.timeLimit(.minutes(3))) struct TableInputTests {
    /// The inputs of a list, read without the program.
    private func inputs(
        _ bytes: some Sequence<UInt8>,
        name: String = "list.csv",
        _ table: TableOptions = TableOptions()
    ) throws -> [Input] {
        let directory = try TestDirectory()
        defer { directory.remove() }
        var selection = InputSelection(arguments: [try directory.write(Data(bytes), to: name)])
        selection.table = table
        var reader = try InputReader(selection)
        var inputs: [Input] = []
        while !reader.isAtEnd { inputs += try reader.next(100) }
        return inputs
    }

    /// Source and labels of each row, and the line number and the reason of each other line.
    private func rows(
        _ text: String,
        name: String = "list.csv",
        _ table: TableOptions = TableOptions()
    ) throws -> [String] {
        try inputs(text.utf8, name: name, table).map { input in
            switch input {
            case .source(let url, _): return (url as NSString).lastPathComponent
            case .row(let row):
                let labels = (row.labels ?? [:]).sorted { $0.key < $1.key }.map { label in
                    if case .text(let text) = label.value { return "\(label.key)=\(text)" }
                    return "\(label.key) is not a text"
                }
                return ([row.id, (row.url as NSString).lastPathComponent].compactMap { $0 } + labels)
                    .joined(separator: " ")
            case .refused(_, let reason, let location): return "line \(location.number): \(reason)"
            case .job: return "a job"
            }
        }
    }

    /// Outcomes by their labels `n`.
    private func byLabel(_ outcomes: [JobOutcome]) -> [String: JobOutcome] {
        let named = outcomes.compactMap { outcome -> (String, JobOutcome)? in
            guard case .text(let name)? = outcome.labels?["n"] else { return nil }
            return (name, outcome)
        }
        return Dictionary(named) { first, _ in first }
    }

    @Test func columnsBecomeSourcesIDsAndLabels() async throws {
        let home = try RunTests.Home()
        try home.writeImages("in/a.png", "in/b, c.png")
        // As Excel writes it: with a mark, and with the line ends of Windows, also in a field.
        let text =
            "\u{FEFF}sku,n,Image,note\r\ns-1,one,in/a.png,\"said \"\"hi\"\"\r\nand went\"\r\n\r\n"
            + "s-2,two,\"in/b, c.png\",\r\ns-3,three,in/missing.png"
        let list = try home.directory.write(Data(text.utf8), to: "list.csv")
        let ending = try await home.run([list, "--id-column", "sku", "--workers", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        let outcomes = byLabel(try home.ledger())
        #expect(outcomes.mapValues(\.id) == ["one": "s-1", "two": "s-2", "three": "s-3"])
        #expect(outcomes["one"]?.labels == ["n": .text("one"), "note": .text("said \"hi\"\r\nand went")])
        #expect(outcomes["two"]?.status == .done && outcomes["two"]?.labels?["note"] == .text(""))
        #expect(outcomes["three"]?.error?.code == "not_found")
        #expect(home.outputs == ["in/a-256x256.jpg", "in/b, c-256x256.jpg"])
    }

    @Test func rowsThatAreNoneAreRefusedByTheirLines() async throws {
        let home = try RunTests.Home()
        try home.writeImages("a.png")
        let long = String(repeating: "x", count: 1100)
        let lines = [
            "id,url,n,title", "1,a.png,good,", "2,a.png,many,b,c", "3,,empty,", "no id!,a.png,id,", "5,a.png,\(long),y",
            "6,a.png,5\" wide,", "7,caf?.png,bytes,", "1,./a.png,same,",
        ]
        let bytes = lines.joined(separator: "\n").utf8.map { $0 == UInt8(ascii: "?") ? 0xE9 : $0 }
        let list = try home.directory.write(Data(bytes), to: "list.csv")
        let ending = try await home.run([list, "--id-column", "id", "--workers", "1"])
        #expect(ending.code == 2, "\(ending.errors)")
        let messages = [
            "line 3 is refused: it has 5 fields, but the list has 4 columns",
            "line 4 is refused: its column \"url\" is",
            "line 5 is refused: its id, column \"id\", is \"no id!\"", "line 6 is refused: its labels have",
            "columns are \"n\" (1101 bytes)", "line 7 is refused: a quote is in the middle",
            "line 8 is refused: it is not UTF-8", "list.csv, line 9 has the id \"1\" of line 2, which is another job",
        ]
        for message in messages { #expect(ending.errors.contains(message), "\(message) in \(ending.errors)") }
        let codes = try home.ledger().map { $0.error?.code ?? "none" }
        #expect(codes.sorted() == ["id_conflict"] + Array(repeating: "invalid_job", count: 6) + ["none"])
        #expect(home.outputs == ["a-256x256.jpg"])
        let dry = try await home.run([list, "--dry-run"])
        #expect(dry.code == 2 && dry.errors.contains("list.csv, line 4 is refused"), "\(dry.errors)")
    }

    /// Name and content of a list, options, and a part of the message.
    private static let faults: [(String, String, [String], String)] = [
        ("list.csv", "a,b,c\n1,2,3\n", [], "list.csv is a CSV with the columns a, b, c: name the one with the URLs"),
        ("list.csv", "url\tx\na\tb\n", [], "separated by tabs. Give --input-format tsv"),
        ("list.csv", "url,image\n1,2\n", [], "a CSV with the columns url, image: name the one"),
        ("list.tsv", "a\tb\n1\t2\n", ["--url-column", "urll"], "a TSV with the columns a, b: --url-column"),
        ("list.csv", "url,name\n", ["--id-column", "nam"], "\"nam\" is none of them. Did you mean \"name\"?"),
        ("list.csv", "url,a\n", ["--label-columns", "a,x"], "--label-columns \"x\" is none of them"),
        ("list.csv", "url,a,a\n", ["--id-column", "a"], "2 of them are called \"a\""),
        ("list.csv", "url,\"a\n", [], "line 1 cannot be the header of a CSV: a quote"),
        ("list.csv", "{\"a\": 1}\n", [], "list.csv is JSON"),
        ("list.txt", "a.png\n", ["--url-column", "a"], "--url-column has no effect: no input is a CSV"),
        ("list.csv", "url\n", ["--label-columns", "a,,b"], "has an empty name"),
        ("list.csv", "url\n", ["--input-format", "xls"], "must be csv, tsv,"),
    ]

    @Test func aListWithoutTheColumnsEndsTheRun() async throws {
        try await inPairs(Self.faults) { (name, text, options, message) in
            let home = try RunTests.Home()
            let list = try home.directory.write(Data(text.utf8), to: name)
            for extra in [[], ["--dry-run"]] {
                let ending = try await home.run([list] + options + extra)
                #expect(ending.code == 64 && ending.errors.contains(message), "\(ending.errors)")
            }
            #expect(!FileManager.default.fileExists(atPath: home.output))
            let submit = await (try home.megaton(["submit", list, "--redis", "redis://127.0.0.1:1"] + options)).ending()
            #expect(submit.code == 64 && submit.errors.contains(message), "\(submit.errors)")
        }
    }

    @Test func delimitersAndFormatsAreFound() throws {
        #expect(try rows("n;URL\n1,5;a.png\n") == ["a.png n=1,5"])
        #expect(try rows("\"n,m\";URL\n1;a.png\n") == ["a.png n,m=1"])
        #expect(try rows("url\na;b.png\n") == ["a;b.png"])
        #expect(try rows("n\tsrc\n1,2\ta.png\n3\t\"b\tc.png\"", name: "l.tsv") == ["a.png n=1,2", "b%09c.png n=3"])
        #expect(try rows("\n \n\n") == [])
        #expect(try rows("url") == [])
        #expect(try rows("") == [])
    }

    @Test func columnsAreChosenByNameAndNumber() throws {
        let text = "n,url,n\n1,a.png,2\n"
        #expect(try rows(text) == ["a.png n=1 n (column 3)=2"])
        #expect(try rows(text, TableOptions(idColumn: "3")) == ["2 a.png n=1"])
        #expect(try rows(text, TableOptions(labelColumns: [])) == ["a.png"])
        #expect(
            try rows(text, TableOptions(idColumn: "1", labelColumns: ["1", "3"])) == ["1 a.png n=1 n (column 3)=2"]
        )
        #expect(try rows("x,,link\n1,2,a.png\n") == ["a.png column 2=2 x=1"])
        let twice = "n,\"n (column 3)\",n,url\n1,2,3,a.png\n"
        #expect(try rows(twice) == ["a.png n=1 n (column 3)=2 n (column 3)'=3"])
        // A name comes before a number.
        #expect(try rows("2,1\na.png,b.png\n", TableOptions(urlColumn: "1")) == ["b.png 2=a.png"])
        // Without a header, the first line is a row too.
        let first = "1,https://h.example/a.png\n2,https://h.example/b.png\n"
        #expect(try rows(first, TableOptions(urlColumn: "2")) == ["a.png column 1=1", "b.png column 1=2"])
    }

    /// Fault: a field of the first row that was the number of the column was taken for its name, and the row was lost.
    @Test func aNumberIsNoNameIfTheListHasNoHeader() throws {
        for source in ["https://h.example/1.jpg", "s3://bucket/1.jpg", "in/1.jpg"] {
            let text = "\(source),1,2\nb.jpg,5,6\n"
            #expect(try rows(text, TableOptions(urlColumn: "1", labelColumns: [])) == ["1.jpg", "b.jpg"])
            let id = TableOptions(urlColumn: "1", idColumn: "2", labelColumns: ["3"])
            #expect(try rows(text, id) == ["1 1.jpg column 3=2", "5 b.jpg column 3=6"])
        }
        #expect(throws: CLIError.self) { try rows("a.jpg,1\n", TableOptions(urlColumn: "\(Int.min)")) }
    }

    /// Fault: such a row was a path, and its job failed with a message about a missing file alone.
    @Test func aURLWithoutItsSchemeIsRefused() throws {
        for text in ["//cdn.example/y.jpg", "www.h.example:8080/y.jpg", "WWW.h.example/a/b"] {
            let host = text.split(separator: "/")[0]
            let reason = "line 2: there is no such file. A URL begins with its scheme: https://\(host)/…"
            #expect(try rows("url,n\n\(text),1\n") == [reason])
            #expect(try rows("\n\(text)\n", name: "list.txt") == [reason])
        }
        for text in ["//etc/y.jpg", "www.jpg", "//../y.jpg", "www.a b.c/y.jpg"] {
            #expect(try rows("url\n\"\(text)\"\n").allSatisfy { !$0.hasPrefix("line") }, "\(text)")
        }
    }

    @Test func rowsMayBeTooShort() throws {
        #expect(try rows("url,a,b\nx.png\ny.png,1\nz.png,,\n") == ["x.png a= b=", "y.png a=1 b=", "z.png a= b="])
        #expect(try rows("a,url\nonly\n") == ["line 2: its column \"url\" is empty"])
    }

    /// Fault that this rules out: a quote without an end makes the rest of the list one field.
    @Test func aQuoteWithoutAnEndHidesNoRow() throws {
        let found = try rows("url,n\na.png,\"x\nb.png,2\nc.png,3")
        #expect(found.count == 3 && found.dropFirst() == ["b.png n=2", "c.png n=3"])
        #expect(found[0].hasPrefix("line 2: a quote that begins in this line has no end"))
    }

    /// Fault: a quote at the end of the last field was left out without a message.
    @Test func aQuoteInAFieldIsRefusedInEachColumn() throws {
        for list in ["url,n\na.png,15\"\n", "n,url\n15\",a.png\n", "n,url\n1,a.png\"\n"] {
            let found = try rows(list)
            #expect(found.count == 1 && found[0].contains("a quote is in the middle of a field"), "\(found)")
        }
        #expect(try rows("url,n\na.png,\"\"\nb.png,\"5\"\"\"\n") == ["a.png n=", "b.png n=5\""])
        #expect(try rows("\r\r\nurl,n\r\r\na.png,1\r\r\n\r\r\nb.png,2, \r\r\n") == ["a.png n=1", "b.png n=2"])
    }

    @Test func whatOtherParsersWouldReadOtherwiseIsRefused() throws {
        let combining = try rows("url,n\na.png,\u{301}b\n\"b.png\"\u{301},1\nc.png,e\u{301}")
        #expect(combining.count == 3 && combining[0].contains("joins its neighbor"))
        #expect(combining[2] == "c.png n=e\u{301}")
        #expect(combining[1].hasPrefix("line 3: "))
        // The sign of an Arabic number is one character with the one behind it.
        let joining = try rows("url,n\na.png\u{6DD},1\n\"b.png\u{6DD}\",1\nc.png,1\u{6DD}\nd.png,\u{6DD}2,\ne.png,ä\n")
        #expect(joining.count == 5 && joining[..<3].allSatisfy { $0.contains("joins its neighbor") })
        #expect(Array(joining[3...]) == ["d.png n=\u{6DD}2", "e.png n=ä"])
        #expect(try rows("url,n\na.png,1\rb.png,2\n")[0].contains("a carriage return without a line feed"))
        #expect(try rows("url,n\n{\"source\":1},1\n\"{\"\"source\"\":1}\",1\n").allSatisfy { $0.hasPrefix("line") })
    }

    /// A source in a table is a path: a list of rows has no comments.
    @Test func aRowMayBeginWithAHash() throws {
        #expect(try rows("url,n\n#a.png,1\n") == ["%23a.png n=1"])
    }

    @Test func standardInputAndOtherNamesAreReadByTheirFormat() async throws {
        let home = try RunTests.Home()
        try home.writeImages("a.png", "b.png")
        let table = "url\tn\na.png\t1\n"
        try home.directory.write(Data("url,n\nb.png,2\n".utf8), to: "export.dat")
        let unnamed = try await home.run(["export.dat", "-j1"])
        #expect(unnamed.code == 64 && unnamed.errors.contains("export.dat is a CSV: name it .csv"), "\(unnamed.errors)")
        let options = ["-o", home.output, "-j1", "-q"]
        let piped = try await home.piped(Data(table.utf8), ["run", "-", "--input-format", "tsv"] + options)
        #expect(piped.code == 0 && piped.errors.isEmpty, "\(piped.errors)")
        let named = try await home.run(["export.dat", "a.png", "--input-format", "csv", "-j1"])
        #expect(named.code == 0, "\(named.errors)")
        #expect(home.outputs == ["a-256x256.jpg", "b-256x256.jpg"])
        let wrong = try await home.piped(Data("x\ty\n".utf8), ["run", "-", "--input-format", "tsv"] + options)
        #expect(wrong.code == 64 && wrong.errors.contains("standard input is a TSV with the columns x, y"))
    }

    @Test func labelsOfASubmissionReachTheQueue() async throws {
        let home = try RunTests.Home()
        let list = try home.directory.write(Data("url,n\nhttps://h.example/a.png,1\n".utf8), to: "l.csv")
        try await RedisServerProcess.run { server in
            let submit = ["submit", list, "--batch", "b", "--redis", server.url]
            #expect(await (try home.megaton(submit)).ending().code == 0)
            let client = server.client()
            defer { client.close() }
            let queued = try await client.send(["LRANGE", "megaton:{default}:2:jobs:b", "0", "-1"]).array ?? []
            #expect(queued.count == 1 && queued[0].string?.contains(#""labels":{"n":"1"}"#) == true, "\(queued)")
        }
    }

    /// Rows are read one by one: the memory of the reader does not grow with the list.
    @Test func aLongListIsReadAsAStream() throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let block = (0..<1000).map { "https://h.example/\($0).png,\"a\nb\"\n" }.joined()
        let text = "url,n\n" + String(repeating: block, count: 20)
        let list = try directory.write(Data(text.utf8), to: "list.csv")
        var reader = try InputReader(InputSelection(arguments: [list]))
        var (count, largest) = (0, 0)
        while !reader.isAtEnd {
            let inputs = try reader.next(500)
            largest = max(largest, inputs.count)
            count += inputs.count
        }
        #expect(count == 20_000 && largest == 500)
    }
}
