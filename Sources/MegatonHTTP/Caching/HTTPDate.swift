package import Foundation

/// Dates of HTTP (RFC 9110 section 5.6.7).
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    private static let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    private static let calendar: Calendar = {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        return calendar
    }()

    /// Parses all three forms: `Sun, 06 Nov 1994 08:49:37 GMT`, and the obsolete `Sunday, 06-Nov-94 08:49:37 GMT` and
    /// `Sun Nov  6 08:49:37 1994`.
    ///
    /// Strict, including case: a guess at a malformed date might make a stale response appear fresh.
    ///
    /// - Parameter now: determines the century of a two-digit year.
    package static func parse(_ text: String?, now: Date = Date()) -> Date? {
        guard let text, text.utf8.count <= 40 else { return nil }
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        switch parts.count {
        case 6 where parts[0].hasSuffix(","):
            guard isDay(parts[0].dropLast(), short: true), parts[5] == "GMT" else { return nil }
            return date(parts[3], parts[2], parts[1], parts[4])
        case 4 where parts[0].hasSuffix(","):
            let fields = parts[1].split(separator: "-", omittingEmptySubsequences: false)
            guard isDay(parts[0].dropLast(), short: false), parts[3] == "GMT", fields.count == 3 else { return nil }
            guard let year = number(fields[2], digits: 2) else { return nil }
            return date(twoDigits: year, fields[1], fields[0], parts[2], now)
        case 6 where parts[2].isEmpty && parts[3].utf8.count == 1:
            return isDay(parts[0], short: true) ? date(parts[5], parts[1], "0\(parts[3])", parts[4]) : nil
        case 5: return isDay(parts[0], short: true) ? date(parts[4], parts[1], parts[2], parts[3]) : nil
        default: return nil
        }
    }

    /// The form that is sent: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7).
    package static func text(_ date: Date) -> String {
        let parts = calendar.dateComponents([.weekday, .day, .month, .year, .hour, .minute, .second], from: date)
        func digits(_ number: Int?) -> String {
            let number = number ?? 0
            return number < 10 ? "0\(number)" : "\(number)"
        }
        // The calendar begins with Sunday, as 1.
        let day = days[((parts.weekday ?? 1) + 5) % 7].prefix(3)
        let time = [parts.hour, parts.minute, parts.second].map(digits).joined(separator: ":")
        return "\(day), \(digits(parts.day)) \(months[(parts.month ?? 1) - 1]) \(parts.year ?? 1970) \(time) GMT"
    }

    private static func isDay(_ name: Substring, short: Bool) -> Bool {
        days.contains { short ? $0.prefix(3) == name : $0 == name }
    }

    /// A date that seems more than fifty years ahead is of the most recent past year with the same two digits.
    private static func date(
        twoDigits year: Int,
        _ month: Substring,
        _ day: Substring,
        _ time: Substring,
        _ now: Date
    ) -> Date? {
        let century = calendar.component(.year, from: now) / 100 * 100
        let candidates = [century + 100, century, century - 100].compactMap { date($0 + year, month, day, time) }
        guard let limit = calendar.date(byAdding: .year, value: 50, to: now) else { return nil }
        return candidates.first { $0 <= limit }
    }

    private static func date(_ year: Substring, _ month: Substring, _ day: Substring, _ time: Substring) -> Date? {
        number(year, digits: 4).flatMap { date($0, month, day, time) }
    }

    private static func date(_ year: Int, _ month: Substring, _ day: Substring, _ time: Substring) -> Date? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3, let month = months.firstIndex(of: String(month)), let day = number(day, digits: 2),
            let hour = number(clock[0], digits: 2), let minute = number(clock[1], digits: 2),
            let second = number(clock[2], digits: 2), hour < 24, minute < 60, second <= 60
        else { return nil }
        if (1970...9999).contains(year) {
            guard let days = daysSince1970(year, month + 1, day) else { return nil }
            let seconds = ((days * 24 + hour) * 60 + minute) * 60 + min(second, 59)
            return Date(timeIntervalSince1970: Double(seconds))
        }
        // `DateComponents` knows no leap second.
        let components = DateComponents(
            year: year,
            month: month + 1,
            day: day,
            hour: hour,
            minute: minute,
            second: min(second, 59)
        )
        return components.isValidDate(in: calendar) ? calendar.date(from: components) : nil
    }

    /// Days from 1970 to a date. Computed here because `Calendar` takes longer than all other parsing.
    ///
    /// - Returns: nil if the month has no such day.
    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int? {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard (1...lengths[month - 1]).contains(day) else { return nil }
        let before = year - 1
        let leapDays = before / 4 - before / 100 + before / 400
        // 719,162 days from the year 1 to 1970.
        return before * 365 + leapDays + lengths.prefix(month - 1).reduce(0, +) + day - 1 - 719_162
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text)
    }
}
