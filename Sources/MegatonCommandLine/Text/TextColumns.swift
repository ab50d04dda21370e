/// Number of columns of a text on a terminal.
///
/// If terminals differ, as for emoji of several scalars, the larger number counts: a line that is a column too short
/// goes unnoticed, and one that is too long wraps.
package enum TextColumns {
    package static func count(_ text: String) -> Int { text.unicodeScalars.reduce(0) { $0 + columns($1) } }

    /// The text itself, or the part of it that fits, with an ellipsis.
    package static func fitted(_ text: String, _ columns: Int) -> String {
        if count(text) <= columns { return text }
        var (result, width) = ("", 1)
        for character in text {
            width += count(String(character))
            if width > columns { break }
            result.append(character)
        }
        return columns > 0 ? result + "…" : ""
    }

    /// The text in lines of at most so many columns, which are broken at spaces; a longer word keeps its own line.
    ///
    /// - Parameter indent: number of spaces in front of each line but the first.
    package static func wrapped(_ text: String, _ columns: Int, indent: Int) -> [String] {
        if count(text) <= columns { return [text] }
        let space = String(repeating: " ", count: indent)
        var (lines, width): ([String], Int) = ([], 0)
        for word in text.split(separator: " ", omittingEmptySubsequences: false).map(String.init) {
            let own = count(word)
            if !lines.isEmpty, width + 1 + own <= columns {
                lines[lines.count - 1] += " " + word
                width += 1 + own
            } else {
                lines.append(lines.isEmpty ? word : space + word)
                width = own + (lines.count > 1 ? indent : 0)
            }
        }
        return lines
    }

    /// The text with every character escaped that would begin a new line or move the cursor.
    package static func oneLine(_ text: String) -> String {
        Terminal.escaped(text) { $0.properties.generalCategory == .control }
    }

    private static func columns(_ scalar: Unicode.Scalar) -> Int {
        if scalar.isASCII { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return scalar.value == 0xFE0F ? 1 : 0
        case .format, .control: return 0
        default: break
        }
        return scalar.properties.isEmojiPresentation || wide.contains { $0.contains(scalar.value) } ? 2 : 1
    }

    /// East Asian Width W and F (Unicode Standard Annex 11), in blocks.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF, 0xA000...0xA4CF,
        0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6,
        0x17000...0x18CFF, 0x1B000...0x1B2FF, 0x1F000...0x1F02F, 0x1F100...0x1F2FF, 0x1F300...0x1F64F,
        0x1F680...0x1F6FF, 0x1F900...0x1FAFF, 0x20000...0x3FFFD,
    ]
}
