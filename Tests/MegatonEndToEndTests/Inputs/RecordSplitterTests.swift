import Testing

@testable import MegatonCommandLine

/// Records of a CSV, by its quotes and delimiters alone.
@Suite struct RecordSplitterTests {
    private typealias Record = RecordSplitter.Record

    /// All records of a text, each as its text and line number; an unterminated or long one with a mark.
    private func split(_ text: String, delimiter: Character = ",") -> [String] {
        var splitter = RecordSplitter(delimiter: delimiter.asciiValue ?? 0)
        var records: [String] = []
        func take(isAtEnd: Bool) {
            while let record = splitter.next(isAtEnd: isAtEnd) {
                switch record {
                case .whole(let line): records.append("\(line.number):\(line.text)")
                case .unterminated(let line): records.append("\(line.number)?\(line.text)")
                case .tooLong(let line): records.append("\(line.number)!\(line.text.utf8.count)")
                }
            }
        }
        // A carriage return and a line feed are one character.
        let lines = text.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            splitter.add(.init(text: String(line), number: index + 1))
            take(isAtEnd: false)
        }
        take(isAtEnd: true)
        return records
    }

    @Test func aFieldInQuotesMayHaveLineEnds() {
        #expect(split("a,b\n1,\"x\ny\",2\n3,4") == ["1:a,b", "2:1,\"x\ny\",2", "4:3,4"])
        #expect(split("\"\n\n\"\nb") == ["1:\"\n\n\"", "4:b"])
        #expect(split("\"a\"\"\nb\"\nc") == ["1:\"a\"\"\nb\"", "3:c"])
        #expect(split("a;\"x\ny\"", delimiter: ";") == ["1:a;\"x\ny\""])
    }

    @Test func aCarriageReturnIsLeftInFieldsOnly() {
        #expect(split("a,\"x\r\ny\"\r\nb\r\n") == ["1:a,\"x\r\ny\"", "3:b", "4:"])
    }

    /// A quote in the middle of a field does not begin a quoted one.
    @Test func aQuoteWithinAFieldHidesNoLine() {
        #expect(split("5\" wide,a\n6\" wide,b\nc") == ["1:5\" wide,a", "2:6\" wide,b", "3:c"])
        #expect(split("\"a\"x\nb") == ["1:\"a\"x", "2:b"])
        // A blank before a quote is skipped, as the parser does.
        #expect(split("a, \"x\ny\"") == ["1:a, \"x\ny\""])
    }

    @Test func aQuoteWithoutAnEndHidesNoLine() {
        #expect(split("a\n\"b\nc\nd,\"e\nf\"") == ["1:a", "2:\"b\nc\nd,\"e", "5:f\""])
        #expect(split("a\n\"b\nc\nd") == ["1:a", "2?\"b", "3:c", "4:d"])
    }

    @Test func theLimitsEndARecord() {
        let lines = Array(repeating: "x", count: RecordSplitter.lineLimit + 10)
        let many = split("\"b\n" + lines.joined(separator: "\n"))
        #expect(many.count == lines.count + 1 && many.prefix(3) == ["1?\"b", "2:x", "3:x"])
        let wide = String(repeating: "y", count: 700_000)
        let large = split("\"b\n\(wide)\n\(wide)\n\(wide)\n\(wide)")
        #expect(large.map { String($0.prefix(3)) } == ["1?\"", "2:y", "3:y", "4:y", "5:y"])
        let end = split("\"b\n\(wide)\n\(wide)\n\(wide)\"\nc")
        #expect(end.map { String($0.prefix(3)) } == ["1!2", "5:c"])
    }

    @Test func aLineThatWasCutIsReportedByItself() {
        var splitter = RecordSplitter(delimiter: 44)
        splitter.add(.init(text: "\"a", number: 1))
        splitter.add(.init(text: "long", number: 2, isCut: true))
        splitter.add(.init(text: "b", number: 3))
        #expect(splitter.next(isAtEnd: false) == .unterminated(.init(text: "\"a", number: 1)))
        #expect(splitter.next(isAtEnd: false) == .tooLong(.init(text: "long", number: 2, isCut: true)))
        #expect(splitter.next(isAtEnd: false) == .whole(.init(text: "b", number: 3)))
        #expect(splitter.next(isAtEnd: true) == nil)
    }

    /// Consumed lines are not kept.
    @Test func recordsAreTakenOneByOne() {
        var splitter = RecordSplitter(delimiter: 44)
        for number in 1...1000 {
            splitter.add(.init(text: "a,b", number: number))
            #expect(splitter.next(isAtEnd: false) == .whole(.init(text: "a,b", number: number)))
            #expect(splitter.firstLine == nil)
        }
    }
}
