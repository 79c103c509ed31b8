//! The report as a page for people: one template, without scripts and without anything from elsewhere.

use std::fmt::{self, Display, Write};

use super::report::{CacheEntry, ControllerEntry, LoopEntry, QueueEntry, Report};

/// The page, with a place `{{name}}` for each part that changes.
const TEMPLATE: &str = include_str!("page.html");

/// The page of a report.
pub(super) fn page(report: &Report) -> String {
    let (disabled, mut running): (Vec<_>, Vec<_>) =
        report.controllers.iter().partition(|controller| controller.reason.is_some());
    running.sort_by_key(|controller| concern(controller));
    fill(TEMPLATE, |name| match name {
        "heading" => {
            let (version, time) = (Escaped(&report.version), Escaped(&report.time));
            format!("steersman {version}, <span class=\"time\">{time}</span>")
        }
        "numbers" => numbers(&running, &report.caches),
        "faults" => faults(&running),
        "controllers" => running.iter().map(|controller| of_controller(controller)).collect(),
        "caches" => of_caches(report),
        "disabled" => of_disabled(&disabled),
        _ => String::new(),
    })
}

/// How soon a reader should see a controller: those with faults come first, then those with keys in retry.
fn concern(controller: &ControllerEntry) -> u8 {
    let in_retry = |one: &LoopEntry| one.queue.as_ref().is_some_and(|queue| queue.in_retry > 0);
    match controller {
        faulty if !faulty.faults.is_empty() => 0,
        retrying if retrying.loops.iter().any(in_retry) => 1,
        _ => 2,
    }
}

/// Fills the places of a template. What is filled in is not searched for places, so no name or error can be taken for one.
fn fill(template: &str, part: impl Fn(&str) -> String) -> String {
    let mut pieces = template.split("{{");
    let mut page = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or(("", piece));
        page += &part(name);
        page += rest;
    }
    page
}

/// Text that is safe in HTML, in attributes as well. Characters that control the direction of text, and other control
/// characters, are replaced: with these, one name could be shown as another.
struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character {
            '&' => self.0.write_str("&amp;"),
            '<' => self.0.write_str("&lt;"),
            '>' => self.0.write_str("&gt;"),
            '"' => self.0.write_str("&quot;"),
            '\'' => self.0.write_str("&#39;"),
            '\n' | '\t' => self.0.write_char(' '),
            hidden if is_hidden(hidden) => self.0.write_char('\u{fffd}'),
            other => self.0.write_char(other),
        })
    }
}

/// Whether a character changes how others are shown, without being shown itself.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn numbers(running: &[&ControllerEntry], caches: &[CacheEntry]) -> String {
    let in_state = |state: &str| running.iter().filter(|controller| controller.state == state).count();
    let queues =
        || running.iter().flat_map(|controller| &controller.loops).filter_map(|one| one.queue.as_ref());
    let busy = running.iter().flat_map(|controller| &controller.loops).map(|one| one.busy_workers);
    let faulty = running.iter().filter(|controller| !controller.faults.is_empty()).count();
    let numbers = [
        (in_state("running"), "running", "running"),
        (in_state("waiting for caches"), "waiting for caches", "waiting for caches"),
        (in_state("standing by"), "standing by", "standing by"),
        (faulty, "with faults", "with faults"),
        (queues().map(|queue| queue.depth).sum(), "key queued", "keys queued"),
        (busy.sum(), "worker busy", "workers busy"),
        (queues().map(|queue| queue.in_retry).sum(), "key in retry", "keys in retry"),
        (caches.iter().map(|cache| cache.objects).sum(), "object cached", "objects cached"),
    ];
    let counted =
        numbers.map(|(number, one, many)| (number.to_string(), if number == 1 { one } else { many }));
    let bytes = Bytes(caches.iter().map(|cache| cache.bytes).sum()).to_string();
    let all = counted.into_iter().chain([(bytes, "of caches")]);
    all.map(|(number, what)| format!("<li><b>{number}</b> {what}</li>")).collect()
}

/// All faults, so that nobody has to look for them.
fn faults(running: &[&ControllerEntry]) -> String {
    let each = running
        .iter()
        .flat_map(|controller| controller.faults.iter().map(move |fault| (&controller.name, fault)));
    each.map(|(name, fault)| format!("<p class=\"fault\"><b>{}</b>: {}</p>\n", Escaped(name), Escaped(fault)))
        .collect()
}

fn of_controller(controller: &ControllerEntry) -> String {
    let class = match &*controller.state {
        _ if !controller.faults.is_empty() => "bad",
        "running" => "good",
        _ => "wait",
    };
    let queues = || controller.loops.iter().filter_map(|one| one.queue.as_ref());
    let sum = |number: fn(&QueueEntry) -> usize| queues().map(number).sum::<usize>();
    let since = controller.state_for.map(|since| format!(" for {since}")).unwrap_or_default();
    let is_well = controller.faults.is_empty() && sum(|queue| queue.in_retry) == 0;
    let open = if is_well { "" } else { " open" };
    let mut page = format!(
        "<details{open}><summary><span class=\"name\">{}</span><span class=\"{class}\">{}{since}</span>\
         <span class=\"soft\">{} queued, {} in retry, {} busy</span></summary><div>\n",
        Escaped(&controller.name),
        Escaped(&controller.state),
        sum(|queue| queue.depth),
        sum(|queue| queue.in_retry),
        controller.loops.iter().map(|one| one.busy_workers).sum::<usize>(),
    );
    if !controller.waiting_for.is_empty() {
        page += &format!(
            "<p class=\"wait\">Waits for caches: {}</p>\n",
            Escaped(controller.waiting_for.join(", "))
        );
    }
    if !controller.caches.is_empty() {
        page += &format!("<p class=\"soft\">Caches: {}</p>\n", Escaped(controller.caches.join(", ")));
    }
    controller.loops.iter().for_each(|one| page += &of_loop(one));
    page + "</div></details>\n"
}

fn of_loop(one: &LoopEntry) -> String {
    let name = Escaped(&one.name);
    let mut page = match (&one.queue, one.period) {
        (Some(queue), _) => {
            let longest =
                queue.longest_running.map(|time| format!(", the longest for {time}")).unwrap_or_default();
            format!(
                "<h3>Queue <code>{name}</code></h3>\n<p>{} queued, {} in retry, {} delayed, {} waiting for own writes; \
                 {} of {} workers busy{longest}</p>\n",
                queue.depth,
                queue.in_retry,
                queue.delayed,
                queue.waiting_for_own_writes,
                one.busy_workers,
                queue.workers,
            )
        }
        (None, Some(period)) => format!("<h3>Each {period}: <code>{name}</code></h3>\n"),
        (None, None) => format!("<h3>Task <code>{name}</code></h3>\n"),
    };
    page += &table(
        &["Worker", "Key", "For", "Without progress"],
        one.busy.iter().map(|busy| {
            [
                busy.worker.to_string(),
                code(&busy.key),
                busy.running_for.to_string(),
                busy.silent_for.to_string(),
            ]
        }),
    );
    if let Some(queue) = &one.queue {
        page += &table(
            &["Retried", "Failures", "Due in"],
            queue
                .retries
                .iter()
                .map(|retry| [code(&retry.key), retry.failures.to_string(), retry.due_in.to_string()]),
        );
        page += &table(
            &["Waits for own writes", "To", "At most for"],
            queue.own_writes.iter().map(|wait| {
                [code(&wait.key), Escaped(wait.writes.join("; ")).to_string(), wait.at_most.to_string()]
            }),
        );
    }
    page + &table(
        &["Failed", "Key", "Times", "Error"],
        one.errors.iter().map(|error| {
            [
                format!("<span class=\"time\">{}</span>", Escaped(&error.time)),
                code(&error.key),
                error.times.to_string(),
                Escaped(&error.error).to_string(),
            ]
        }),
    )
}

fn of_caches(report: &Report) -> String {
    let rows = report.caches.iter().map(|cache| {
        let watch = match &cache.stale {
            Some(stale) => format!("<span class=\"bad\">{}</span>", Escaped(stale)),
            None if !cache.synced => {
                format!(
                    "<span class=\"wait\">not synced: {} for {}</span>",
                    Escaped(&cache.watch),
                    cache.watch_for
                )
            }
            None => format!("<span class=\"good\">{}</span>", Escaped(&cache.watch)),
        };
        let unreadable = match cache.unreadable {
            0 => String::new(),
            number => format!(" <span class=\"bad\">({number} unreadable)</span>"),
        };
        let error = cache.last_error.as_ref().zip(cache.last_error_ago);
        [
            code(&cache.resource),
            format!("{}{unreadable}", cache.objects),
            Bytes(cache.bytes).to_string(),
            cache.staleness.map_or_else(|| "-".to_owned(), |silence| silence.to_string()),
            watch,
            cache.relists.to_string(),
            cache.queued.to_string(),
            error.map_or_else(|| "-".to_owned(), |(error, ago)| format!("{ago} ago: {}", Escaped(error))),
        ]
    });
    let heads = ["Resource", "Objects", "Memory", "Last event", "Watch", "Relists", "Queued", "Last error"];
    let left_off = match report.caches_left_off {
        0 => String::new(),
        number => format!("<p class=\"soft\">{number} smaller caches are left off.</p>"),
    };
    table(&heads, rows) + &left_off
}

fn of_disabled(disabled: &[&ControllerEntry]) -> String {
    let rows = disabled.iter().map(|controller| {
        [code(&controller.name), Escaped(controller.reason.as_deref().unwrap_or_default()).to_string()]
    });
    table(&["Controller", "Why"], rows)
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", Escaped(text))
}

/// A table with these cells, which are HTML. Nothing, if there are no rows.
fn table<const N: usize>(heads: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut body = String::new();
    for cells in rows {
        body += "<tr>";
        for (head, cell) in heads.iter().zip(cells) {
            body += &format!("<td data-label=\"{head}\"><span>{cell}</span></td>");
        }
        body += "</tr>\n";
    }
    if body.is_empty() {
        return body;
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    format!("<table><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table>\n")
}

/// A number of bytes for people.
struct Bytes(usize);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kib, mib) = (self.0 / 1024, self.0 / 1024 / 1024);
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            _ if kib < 10 * 1024 => write!(f, "{kib} KiB"),
            _ => write!(f, "{mib} MiB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{ErrorEntry, OwnWriteEntry, RetryEntry, WorkerEntry};
    use super::*;

    const HOSTILE: &str = "<script>alert('x')</script>{{disabled}}\"&\u{202e}";
    const HARMLESS: &str = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;{{disabled}}&quot;&amp;\u{fffd}";

    #[test]
    fn hostile_text_is_escaped_wherever_it_stands() {
        let text = || HOSTILE.to_owned();
        let queue = QueueEntry {
            retries: vec![RetryEntry { key: text(), ..RetryEntry::default() }],
            own_writes: vec![OwnWriteEntry { key: text(), writes: vec![text()], ..OwnWriteEntry::default() }],
            ..QueueEntry::default()
        };
        let one = LoopEntry {
            name: text(),
            queue: Some(queue),
            busy: vec![WorkerEntry { key: text(), ..WorkerEntry::default() }],
            errors: vec![ErrorEntry { time: text(), key: text(), error: text(), times: 1 }],
            ..LoopEntry::default()
        };
        let running = ControllerEntry {
            name: text(),
            state: text(),
            faults: vec![text()],
            waiting_for: vec![text()],
            caches: vec![text()],
            loops: vec![one],
            ..ControllerEntry::default()
        };
        let disabled = ControllerEntry { name: text(), reason: Some(text()), ..ControllerEntry::default() };
        let cache = CacheEntry {
            resource: text(),
            watch: text(),
            synced: true,
            last_error: Some(text()),
            last_error_ago: Some(Default::default()),
            ..CacheEntry::default()
        };
        let unsynced = CacheEntry { synced: false, ..cache.clone() };
        let stale = CacheEntry { stale: Some(text()), ..cache.clone() };
        let report = Report {
            time: text(),
            version: text(),
            controllers: vec![running, disabled],
            caches: vec![cache, unsynced, stale],
            caches_left_off: 3,
        };
        let page = page(&report);
        assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
        assert_eq!(page.matches(HARMLESS).count(), 27, "{page}");
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    }

    #[test]
    fn every_place_of_the_template_is_filled_and_nothing_is_loaded() {
        let page = page(&Report::default());
        assert!(!page.contains("{{") && !page.contains("}}"), "{page}");
        for foreign in ["<script", "src=", "href=", "url(", "@import", "http:", "https:"] {
            assert!(!TEMPLATE.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn controllers_with_faults_come_first_and_then_those_with_keys_in_retry() {
        let controller = |name: &str, faults: &[&str], in_retry| {
            let queue = QueueEntry { in_retry, ..QueueEntry::default() };
            ControllerEntry {
                name: name.to_owned(),
                faults: faults.iter().map(|&fault| fault.to_owned()).collect(),
                loops: vec![LoopEntry { queue: Some(queue), ..LoopEntry::default() }],
                ..ControllerEntry::default()
            }
        };
        let controllers = vec![
            controller("a-well", &[], 0),
            controller("b-retrying", &[], 1),
            controller("c-faulty", &["f"], 0),
        ];
        let page = page(&Report { controllers, ..Report::default() });
        let at = |name: &str| page.find(&format!("<span class=\"name\">{name}")).unwrap();
        assert!(at("c-faulty") < at("b-retrying") && at("b-retrying") < at("a-well"), "{page}");
        assert!(page.contains("<b>1</b> key in retry") && page.contains("<b>0</b> keys queued"), "{page}");
    }

    #[test]
    fn bytes_are_shown_in_units_that_people_read() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (20 << 20, "20 MiB")] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
